//! The ports: what the engine needs of the world, as traits. Adapters implement them; the engine knows no NATS, HTTP or chain.
//!
//! Faults are told apart where they arise. A [`Transient`] fault says nothing about the outcome and is retried for as
//! long as it takes; it never ends a payment. Its kind says who can mend it. Whatever may end one is a *value* that
//! carries its evidence, such as [`DepositState::Reverted`] or [`DeliveryState::Impossible`].

mod auction;
mod chains;
mod orders;
mod selector;
mod transient;
mod verifier;
mod waiting;

use std::time::Duration;

use async_trait::async_trait;

use events::{StreamId, time::Timestamp};

pub use self::{
    auction::{
        ANSWER_WAIT_MAX, Answer, Auction, AuctionOver, Award, AwardAnswer, AwardEnd, Bid, Escrowed, Gathered,
        Gathering, OpenWindow, REPLACEABLE_ANSWER_WAIT, RequestForQuotes, SettlerRecords,
    },
    chains::Chains,
    orders::{
        AddressFunds, AddressState, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState,
        ExpectedTerms, OwnReturn, PayerDeposit, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder,
        Refusal, ReleaseOrder, Reservation, Statement, TransactionState,
    },
    selector::{SelectionRequest, Selector},
    transient::Transient,
    verifier::{VerificationCase, Verifier},
    waiting::{Cursor, Look, UNSEEN_MAX, Waiting},
};

/// Time. The engine reads no other clock and sleeps nowhere else, but for how long a task is kept that only waits: that
/// decides nothing.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// Returns once `duration` has passed.
    async fn sleep(&self, duration: Duration);
}

/// The payments and quote-request batches of a shard that are not at rest, from a read model.
#[async_trait]
pub trait OpenStreams: Send + Sync {
    /// Every payment and batch of `shard` that is not at rest, as of at least stream sequence `as_of`.
    ///
    /// # Errors
    /// [`Transient`] when the read model cannot get that far for now.
    async fn open_streams(&self, shard: u16, as_of: u64) -> Result<Vec<StreamId>, Transient>;
}
