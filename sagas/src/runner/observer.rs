//! The observer of the engine: what counts and times payments (metrics). It decides nothing, and nothing waits for it.
//!
//! It is told of a commit when the journal has acknowledged it to the engine that appended it. What is loaded, replayed or
//! rebuilt is not told again, and a gateway that takes a payment over tells what it appends itself: over all gateways a commit
//! is told once at most. One whose gateway died before the acknowledgement is told by nobody; the journal has it.

use events::{
    event::{AuctionClosed, PaymentEvent, TransactionPrepared},
    time::Timestamp,
};

use crate::payment::{Milestones, Payment};

/// What a transaction of the gateway does for its payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionLeg {
    /// It brings money into escrow, or reserves it there.
    Deposit,
    /// It reserves the escrow for another settler.
    Reassignment,
    /// It pays the settler.
    Release,
    /// It pays the payer back.
    Refund,
}

impl TransactionLeg {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Deposit, Self::Reassignment, Self::Release, Self::Refund];

    /// The leg as operators see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deposit => "deposit",
            Self::Reassignment => "reassignment",
            Self::Release => "release",
            Self::Refund => "refund",
        }
    }
}

/// An attempt at a transaction that a commit ended: it landed, or nothing is left for it to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedAttempt {
    /// What it was for.
    pub leg: TransactionLeg,
    /// All its versions, oldest first, of which one landed at most.
    pub versions: Vec<TransactionPrepared>,
    /// The transaction that did what the attempt was for, whoever sent it; `None` where nothing did.
    pub landed: Option<String>,
}

/// A commit of a payment that the engine appended.
#[derive(Debug)]
pub struct CommittedPayment<'a> {
    /// What happened.
    pub events: &'a [PaymentEvent],
    /// When the journal stored it.
    pub stored_at: Timestamp,
    /// When the payment reached what it had reached before.
    pub before: &'a Milestones,
    /// The payment with these events in it.
    pub payment: &'a Payment,
    /// The attempts that it ended.
    pub ended: Vec<EndedAttempt>,
}

/// Sees what the engine does. No method may block.
pub trait Observer: Send + Sync {
    /// A commit of a payment is stored.
    fn committed(&self, commit: &CommittedPayment<'_>);

    /// The auction of a quote-request batch is over and on record.
    fn collected(&self, auction: &AuctionClosed);
}
