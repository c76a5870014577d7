//! The two chains: the escrow contract and the once-only proxy as state machines, each in the newest block and in the newest settled
//! one. A reorganisation takes back what is not settled.

use super::{
    config::Config,
    documents::{CAP, PRICES, QUOTES, auction, previous, settler_of},
    variant::Variant,
};

/// What the payer has before.
pub const FUNDS: u16 = 3 * CAP;
/// Places of the balances.
pub const PAYER: usize = 0;
/// The escrow's.
pub const HELD: usize = 1;
/// The first settler's.
pub const FIRST_SETTLER: usize = 2;

/// `GatewayEscrow.State`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum State {
    /// Nothing was ever in it.
    #[default]
    None,
    /// The money is in it, for nobody yet.
    Deposited,
    /// The money is in it, for a settler.
    Reserved,
    /// The settler was paid.
    Released,
    /// The payer was paid back.
    Refunded,
}

/// The escrow's record of the payment, and all balances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Escrow {
    /// Where it stands.
    pub state: State,
    /// Whether it is reserved for a quote, or was until it ended.
    pub is_named: bool,
    /// That quote.
    pub quote: u8,
    /// What was deposited.
    pub deposited: u16,
    /// How often.
    pub deposits: u8,
    /// The tick of its end.
    pub ended: u8,
    /// Payer, escrow and settlers.
    pub balances: [u16; 4],
}

impl Default for Escrow {
    fn default() -> Self {
        let balances = [FUNDS, 0, 0, 0];
        Self { state: State::None, is_named: false, quote: 0, deposited: 0, deposits: 0, ended: 0, balances }
    }
}

/// The statements of the releaser that anyone may hold by now, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Words(u8);

impl Words {
    /// Adds the statement that `quote` was delivered.
    pub fn add_delivery(&mut self, quote: u8) {
        self.0 |= 1 << quote;
    }

    /// Adds the statement that it was not.
    pub fn add_non_delivery(&mut self, quote: u8) {
        self.0 |= 0x10 << quote;
    }

    /// Whether the one is there.
    pub fn delivery(self, quote: u8) -> bool {
        self.0 & 1 << quote != 0
    }

    /// Whether the other is.
    pub fn non_delivery(self, quote: u8) -> bool {
        self.0 & 0x10 << quote != 0
    }

    fn any_non_delivery(self) -> bool {
        self.0 >> QUOTES != 0
    }
}

impl Escrow {
    fn pay(&mut self, to: usize, amount: u16) {
        self.balances[HELD] -= amount;
        self.balances[to] += amount;
    }

    /// `depositWithWitness` and `depositMoreWithWitness`: admitted up to the tick `until`, in a block of the tick `at`.
    pub fn deposit(&mut self, config: &Config, quote: u8, amount: u16, until: u8, at: u8) -> bool {
        let windows = &config.windows;
        let is_unused = self.state == State::None || config.is(Variant::DepositTwice) && self.state == State::Reserved;
        let is_in_time = at <= until && at <= windows.reserve && at < windows.promises[auction(quote)];
        if !is_unused || !is_in_time || amount > CAP.min(self.balances[PAYER]) || amount < PRICES[usize::from(quote)] {
            return false;
        }
        self.balances[PAYER] -= amount;
        self.balances[HELD] += amount;
        let (deposited, deposits) = (self.deposited + amount, self.deposits + 1);
        *self = Self { state: State::Reserved, is_named: true, quote, deposited, deposits, ..*self };
        true
    }

    /// `depositOwn`: the payer's own transaction, of the cap.
    pub fn deposit_own(&mut self, config: &Config, at: u8) -> bool {
        let is_taken = self.state == State::None && at <= config.windows.reserve && self.balances[PAYER] >= CAP;
        if is_taken {
            self.balances[PAYER] -= CAP;
            self.balances[HELD] += CAP;
            (self.state, self.deposited, self.deposits) = (State::Deposited, CAP, self.deposits + 1);
        }
        is_taken
    }

    /// `reserve`, with the reserver's signature over `quote`.
    pub fn reserve(&mut self, config: &Config, quote: u8, at: u8) -> bool {
        let is_taken = self.state == State::Deposited
            && (at <= config.windows.reserve || config.is(Variant::ReserveWithoutEnd))
            && at < config.windows.promises[auction(quote)]
            && PRICES[usize::from(quote)] <= self.deposited;
        if is_taken {
            (self.state, self.is_named, self.quote) = (State::Reserved, true, quote);
        }
        is_taken
    }

    /// Whether money is in it.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Deposited | State::Reserved)
    }

    /// `reassign`, with the reserver's signature over `quote` and the quote before.
    pub fn reassign(&mut self, config: &Config, quote: u8, words: Words, at: u8) -> bool {
        let promises = config.windows.promises;
        let is_due = self.state == State::Reserved
            && previous(quote) == Some(self.quote)
            && at > promises[auction(self.quote)]
            && at < promises[auction(quote)]
            && PRICES[usize::from(quote)] <= self.deposited
            && words.non_delivery(self.quote);
        if is_due {
            self.quote = quote;
        }
        is_due
    }

    /// Whether `release` is taken in a block of the tick `at`, with the right attestation.
    pub fn releases(&self, config: &Config, at: u8) -> bool {
        let is_open = at < config.windows.refund_after || config.is(Variant::ReleaseWithoutEnd);
        self.state == State::Reserved && is_open
    }

    /// `release`, with an attestation that names `quote`.
    pub fn release(&mut self, config: &Config, quote: u8, words: Words, at: u8) -> bool {
        let is_due = self.releases(config, at) && self.quote == quote && words.delivery(quote);
        if is_due {
            let price = PRICES[usize::from(quote)];
            self.pay(FIRST_SETTLER + settler_of(quote), price);
            self.pay(PAYER, self.deposited - price);
            (self.state, self.ended) = (State::Released, at);
        }
        is_due
    }

    /// `cancel`, with the non-delivery.
    pub fn cancel(&mut self, config: &Config, words: Words, at: u8) -> bool {
        let is_said = match config.is(Variant::NonDeliveryWithoutQuote) {
            true => words.any_non_delivery(),
            false => words.non_delivery(self.quote),
        };
        let is_due = self.state == State::Reserved && at < config.windows.refund_after && is_said;
        self.refund_if(is_due, at)
    }

    /// Whether `refund` is taken in a block of the tick `at`.
    pub fn refunds(&self, config: &Config, at: u8) -> bool {
        let from = match config.is(Variant::RefundBeforeReleaseMargin) {
            true => config.windows.fulfillment,
            false => config.windows.refund_after,
        };
        self.is_open() && at >= from
    }

    /// `refund`.
    pub fn refund(&mut self, config: &Config, at: u8) -> bool {
        self.refund_if(self.refunds(config, at), at)
    }

    fn refund_if(&mut self, is_due: bool, at: u8) -> bool {
        if is_due {
            self.pay(PAYER, self.deposited);
            (self.state, self.ended) = (State::Refunded, at);
        }
        is_due
    }
}

/// What became of the gateway's own transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Mined {
    /// It is in no block.
    #[default]
    No,
    /// It is in one, with its effect.
    Done,
    /// It reverted in a block of this tick.
    Reverted(u8),
}

/// What the source chain holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Source {
    /// The escrow.
    pub escrow: Escrow,
    /// The gateway's transactions, one a kind.
    pub mined: [Mined; 4],
}

/// What the destination chain holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Destination {
    /// For each quote the block of its delivery by its own settler, from 1; 0 while there is none.
    pub delivered: [u8; QUOTES],
    /// Quotes under which somebody else delivered, who is not paid for it.
    pub pretended: u8,
}

impl Destination {
    /// `FulfillmentProxy.fulfill` by the quote's settler, once, and not after its promise.
    pub fn fulfill(&mut self, config: &Config, quote: u8, at: u8, block: u8) -> bool {
        let delivered = &mut self.delivered[usize::from(quote)];
        let is_taken = at <= config.windows.promises[auction(quote)] && *delivered == 0;
        if is_taken {
            *delivered = block;
        }
        is_taken
    }

    /// Whether there is a delivery that counts.
    pub fn has(&self, quote: u8) -> bool {
        self.delivered[usize::from(quote)] != 0
    }

    /// Whether somebody else delivered under the quote.
    pub fn is_pretended(&self, quote: u8) -> bool {
        self.pretended & 1 << quote != 0
    }
}

/// A chain in its newest block and in its newest settled one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Chain<T> {
    /// The newest block.
    pub head: T,
    /// The newest settled block.
    pub settled: T,
    /// The tick of that.
    pub settled_at: u8,
}

impl<T: Copy + PartialEq> Chain<T> {
    /// Settles all there is, in a block of the tick `at`; whether that is news.
    pub fn settle(&mut self, at: u8) -> bool {
        let is_news = self.head != self.settled || self.settled_at != at;
        (self.settled, self.settled_at) = (self.head, at);
        is_news
    }

    /// Takes back what is not settled; whether there was something.
    pub fn reorganise(&mut self) -> bool {
        let is_news = self.head != self.settled;
        self.head = self.settled;
        is_news
    }
}
