//! The bounds of a check: who takes part, what may go wrong and how often, and which broken variant is in force.

use super::variant::Variant;

/// The windows of the payment, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Last tick of the deposit.
    pub reserve: u8,
    /// Ticks that an admission of the reserver lasts beyond the one it is given in.
    pub admission: u8,
    /// Last tick of a delivery under a quote of the first auction, and of the second.
    pub promises: [u8; 2],
    /// Last tick of any delivery.
    pub fulfillment: u8,
    /// First tick of the refund.
    pub refund_after: u8,
    /// The last tick. Gateways see the refund window open one tick after it did, and a chain's clock may be a tick behind.
    pub end: u8,
}

impl Windows {
    /// One reservation, and nobody to follow it.
    pub const TINY: Self = Self { reserve: 0, admission: 0, promises: [1, 1], fulfillment: 1, refund_after: 3, end: 4 };
    /// The payer's own transaction has a tick, and its reservation another.
    pub const RESERVED: Self =
        Self { reserve: 1, admission: 0, promises: [2, 2], fulfillment: 2, refund_after: 4, end: 5 };
    /// The shortest in which everything can happen: an admission lasts as long as the deposit's window.
    pub const SHORT: Self =
        Self { reserve: 0, admission: 0, promises: [1, 3], fulfillment: 3, refund_after: 4, end: 5 };
    /// A second auction has time for a destination chain whose clock is behind.
    pub const WIDE: Self = Self { reserve: 0, admission: 0, promises: [1, 4], fulfillment: 4, refund_after: 5, end: 6 };
    /// An admission ends a tick before the deposit's window, so that a second deposit may be tried.
    pub const LONG: Self = Self { reserve: 1, admission: 0, promises: [2, 4], fulfillment: 4, refund_after: 5, end: 6 };
}

/// Who attests deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verifiers {
    /// One, which is honest.
    Single,
    /// Three, of which two have to sign; one of them signs whatever it likes.
    TwoOfThree,
}

impl Verifiers {
    /// Whether they are a set.
    pub fn is_set(self) -> bool {
        self == Self::TwoOfThree
    }
}

/// Who brings the payer's money into escrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// The gateway, by the payer's signature, and it reserves it in the same call (`EVM_PERMIT2_ESCROW`).
    Signature,
    /// The payer's own transaction, which anyone can send; the gateway reserves it afterwards (Tron).
    OwnTransaction,
}

/// When settlers deliver, where they do at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// When the escrow is reserved for them in a settled block.
    Diligent,
    /// When it is in any block.
    Hasty,
    /// Whenever the proxy takes it, reserved or not.
    Reckless,
}

/// The bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The name, as reports have it.
    pub name: &'static str,
    /// The windows.
    pub windows: Windows,
    /// Who deposits.
    pub scheme: Scheme,
    /// Gateways that act on the payment, one or two.
    pub gateways: usize,
    /// Who attests.
    pub verifiers: Verifiers,
    /// Ticks by which the clock of the source chain is behind, and that of the destination chain.
    pub lags: [u8; 2],
    /// Reorganisations of blocks that are not settled, of both chains together.
    pub reorganisations: u8,
    /// Transactions of the gateway whose nonce another one uses.
    pub nonces_lost: u8,
    /// Sets of settlers that may bid in the first auction and in the second, one bit a settler.
    pub bidders: [&'static [u8]; 2],
    /// Whether winners may refuse, or be silent.
    pub refusals: bool,
    /// When settlers deliver.
    pub conduct: Conduct,
    /// Whether somebody delivers under another's quote, who is not paid for that.
    pub impostor: bool,
    /// Whether the payer may spend the money elsewhere before it is drawn.
    pub payer_spends: bool,
    /// Whether verifiers may be out of reach.
    pub silent_verifiers: bool,
    /// Whether the block that holds a deposit is recorded before it is settled.
    pub provisional: bool,
    /// Whether strangers bring the calls that nodes were shown.
    pub strangers: bool,
    /// Whether gateways die.
    pub crashes: bool,
    /// Whether acknowledgements of the journal are lost.
    pub unknown_appends: bool,
    /// Reassignments of the escrow.
    pub reassignments: u32,
    /// The broken variant in force.
    pub variant: Option<Variant>,
}

impl Config {
    /// No faults: every party does its part, or does not.
    pub const CALM: Self = Self {
        name: "calm",
        windows: Windows::SHORT,
        scheme: Scheme::Signature,
        gateways: 1,
        verifiers: Verifiers::Single,
        lags: [0, 0],
        reorganisations: 0,
        nonces_lost: 0,
        bidders: [&[0, 1, 3], &[0, 2]],
        refusals: true,
        conduct: Conduct::Diligent,
        impostor: false,
        payer_spends: false,
        silent_verifiers: true,
        provisional: false,
        strangers: false,
        crashes: true,
        unknown_appends: false,
        reassignments: 1,
        variant: None,
    };

    /// This one with a broken variant.
    pub fn with(self, variant: Variant) -> Self {
        Self { variant: Some(variant), ..self }
    }

    /// Whether no state is come to twice on one way: nothing is taken back, and nothing is forgotten.
    pub fn is_acyclic(&self) -> bool {
        !self.crashes && self.reorganisations == 0
    }

    /// Whether this broken variant is in force.
    pub fn is(&self, variant: Variant) -> bool {
        self.variant == Some(variant)
    }
}
