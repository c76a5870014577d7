//! A state of the payment model, and what the verifiers make of it.

use super::{
    chains::{Chain, Destination, Source, State, Words},
    command::{Call, Command, Kind},
    config::{Config, Verifiers},
    documents::{QUOTES, auction},
    engine::{Engine, Fault, Fold},
    variant::Variant,
};

/// What a winner answered; final, as stream `ANSWERS` keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Answer {
    /// It was not heard yet.
    #[default]
    Unheard,
    /// It stands by its quote.
    Accepted,
    /// It does not.
    Refused,
    /// It did not answer in time.
    Silent,
}

/// A commit whose outcome a gateway does not know yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pending {
    /// What it records.
    pub command: Command,
    /// The fold with it.
    pub to: Fold,
    /// Whether it is stored, though the acknowledgement was lost.
    pub is_stored: bool,
}

/// The memory of a gateway's process; a crash loses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Gateway {
    /// The journal as it was loaded.
    pub loaded: Option<Fold>,
    /// The commit under way.
    pub pending: Option<Pending>,
    /// The end of the admission that a refused deposit was tried with, while that is waited for.
    pub refused: Option<u8>,
}

/// A transaction of the gateway's, as journaled last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Own {
    /// Its attempt.
    pub attempt: u32,
    /// Its call.
    pub call: Call,
    /// Whether a node was shown it, so that it may be mined at any time.
    pub is_shown: bool,
    /// Whether another transaction has used its nonce.
    pub is_dead: bool,
}

/// A state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct World {
    /// The gateways' clock.
    pub now: u8,
    /// The journal.
    pub journal: Fold,
    /// The gateways, in an order without meaning: which is which makes no difference.
    pub gateways: [Gateway; 2],
    /// The source chain.
    pub source: Chain<Source>,
    /// The destination chain.
    pub destination: Chain<Destination>,
    /// The gateway's transactions, one a kind.
    pub own: [Option<Own>; 4],
    /// What the winners answered.
    pub answers: [Answer; QUOTES],
    /// Deposits, or reservations of the payer's own, that anyone can bring: the reserver's signatures, by amount and last tick.
    pub admissions: [Option<(u16, u8)>; QUOTES],
    /// Quotes for which the reserver signed a reassignment, one bit each.
    pub reassignments: u8,
    /// The releaser's statements.
    pub words: Words,
    /// Quotes under which their settler delivered when the escrow was reserved for it in a settled block.
    pub diligent: u8,
    /// Reorganisations left.
    pub reorganisations: u8,
    /// Nonces that may still be lost.
    pub nonces_lost: u8,
    /// Whether the payer spent its money elsewhere.
    pub is_spent: bool,
    /// Whether a node was shown a transaction that is in no journal.
    pub is_unjournaled: bool,
    /// How the engine contradicted itself, if it did.
    pub fault: Option<Fault>,
}

impl World {
    /// The beginning: the payment is submitted.
    pub fn begin(config: &Config) -> Self {
        Self {
            now: 0,
            journal: Engine::SUBMITTED,
            gateways: [Gateway::default(); 2],
            source: Chain::default(),
            destination: Chain::default(),
            own: [None; 4],
            answers: [Answer::Unheard; QUOTES],
            admissions: [None; QUOTES],
            reassignments: 0,
            words: Words::default(),
            diligent: 0,
            reorganisations: config.reorganisations,
            nonces_lost: config.nonces_lost,
            is_spent: false,
            is_unjournaled: false,
            fault: None,
        }
    }

    /// The time of a block of the source chain that is made now.
    pub fn source_time(&self, config: &Config) -> u8 {
        self.now.saturating_sub(config.lags[0])
    }

    /// The same of the destination chain.
    pub fn destination_time(&self, config: &Config) -> u8 {
        self.now.saturating_sub(config.lags[1])
    }

    /// The number of a block that is made now, as far as it tells forks apart.
    pub fn block(&self, config: &Config) -> u8 {
        1 + config.reorganisations - self.reorganisations
    }

    /// The quote that the settled escrow is reserved for, or was until it ended.
    pub fn reserved(&self) -> Option<u8> {
        let escrow = &self.source.settled.escrow;
        escrow.is_named.then_some(escrow.quote)
    }

    /// Whether `quote` was delivered, as far as a verifier is concerned.
    fn is_delivered(&self, config: &Config, quote: u8) -> bool {
        let seen = match config.is(Variant::DeliveryNotSettled) {
            true => &self.destination.head,
            false => &self.destination.settled,
        };
        seen.has(quote) || config.is(Variant::ImpostorCounts) && seen.is_pretended(quote)
    }

    /// Gives everybody the statements that the verifiers would sign by now. What is signed holds for ever.
    pub fn attest(&mut self, config: &Config) {
        let everything = config.is(Variant::ThresholdOfOne) && config.verifiers == Verifiers::TwoOfThree;
        if everything {
            (0..QUOTES as u8).for_each(|quote| {
                self.words.add_delivery(quote);
                self.words.add_non_delivery(quote);
            });
            return;
        }
        let Some(quote) = self.reserved() else { return };
        if self.is_delivered(config, quote) {
            self.words.add_delivery(quote);
            return;
        }
        let seen_until = match config.is(Variant::NonDeliveryByClock) {
            true => self.destination_time(config),
            false => self.destination.settled_at,
        };
        let is_over = seen_until > config.windows.promises[auction(quote)];
        if is_over && self.source.settled.escrow.state != State::Released {
            self.words.add_non_delivery(quote);
        }
    }

    /// The gateway's transaction of a kind, as journaled last.
    pub fn own(&self, kind: Kind) -> Option<&Own> {
        self.own[kind as usize].as_ref()
    }

    /// The same state whichever gateway is which.
    pub fn canonical(mut self) -> Self {
        self.gateways.sort_unstable();
        self
    }
}
