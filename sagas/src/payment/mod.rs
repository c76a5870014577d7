//! The payment as a pure state machine.

mod command;
mod decide;
mod evolve;

pub use command::Command;
pub use decide::{Rejected, decide};
pub use evolve::{IllegalTransition, evolve, fold};

use events::{
    event::{
        AuctionClosed, EscrowRefunded, EscrowSecured, Failed, FulfillmentConfirmed, Inclusion, QuoteAwarded, RefundDue,
        Submitted, TransactionPrepared,
    },
    quote::Quote,
};

/// Everything known about a payment: the fold of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// What was accepted.
    pub submitted: Box<Submitted>,
    /// The auction's outcome, once closed.
    pub auction: Option<AuctionClosed>,
    /// The quote that won.
    pub award: Option<Box<Awarded>>,
    /// The deposit transactions so far.
    pub deposit: Attempts,
    /// The escrow, once funded at depth.
    pub secured: Option<EscrowSecured>,
    /// Where the delivery was seen last.
    pub seen: Option<Inclusion>,
    /// The delivery, once confirmed.
    pub confirmed: Option<Box<FulfillmentConfirmed>>,
    /// The transaction that released the escrow.
    pub released: Option<Inclusion>,
    /// The failure, once terminal.
    pub failed: Option<Box<Failed>>,
    /// The refund transactions so far.
    pub refund: Attempts,
    /// The return of the money.
    pub refunded: Option<EscrowRefunded>,
}

/// A quote that won, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Awarded {
    /// The event.
    pub event: QuoteAwarded,
    /// What the document says.
    pub quote: Quote,
}

/// The attempts at one transaction: at most one is alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Attempts so far.
    pub count: u32,
    /// The one that may still land.
    pub live: Option<TransactionPrepared>,
    /// The newest one, alive or not.
    pub last: Option<TransactionPrepared>,
}

/// Where a payment stands, derived from what is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Quotes are being collected.
    Auction,
    /// A quote won; no deposit is under way.
    Awarded,
    /// A deposit is under way.
    Depositing,
    /// The funds are in escrow and the delivery is awaited.
    Secured,
    /// The delivery was seen and is accruing depth.
    Finalizing,
    /// Delivered; the settler has yet to be paid.
    Completed,
    /// Failed, with money still in escrow.
    Refunding,
    /// Nothing is left to do.
    Rest,
}

impl Payment {
    /// Where the payment stands.
    pub fn stage(&self) -> Stage {
        if self.released.is_some() || self.refunded.is_some() {
            return Stage::Rest;
        }
        if let Some(failed) = &self.failed {
            return if failed.refund == RefundDue::Nothing { Stage::Rest } else { Stage::Refunding };
        }
        if self.confirmed.is_some() {
            Stage::Completed
        } else if self.secured.is_some() {
            if self.seen.is_some() { Stage::Finalizing } else { Stage::Secured }
        } else if self.award.is_some() {
            if self.deposit.live.is_some() { Stage::Depositing } else { Stage::Awarded }
        } else {
            Stage::Auction
        }
    }
}
