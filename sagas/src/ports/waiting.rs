//! Cursor and wait: waiting for an event of one payment on a chain.

use std::time::Duration;

use events::{ChainId, PaymentId};

/// A cursor into what an adapter saw of a chain, to wait from. Only the adapter that gave it can read it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Rounds of looking at the chain that were over.
    pub round: u64,
    /// Time of the newest settled block that was seen, UNIX seconds.
    pub settled: u64,
}

/// What is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// The chain.
    pub chain_id: &'a ChainId,
    /// The payment.
    pub payment_id: &'a PaymentId,
    /// Taken before the payment was last looked at.
    pub since: Cursor,
    /// A settled block past this UNIX second tells, too.
    pub deadline: u64,
    /// A transaction must get into a block: until the escrow says something of the payment, every block tells.
    pub is_pushed: bool,
}

/// A look at a chain, for all who wait there: what may be new to them since the look before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Rounds of looking for events that were over. Where it is the same as before, no event is new.
    pub round: u64,
    /// Whether there is a new block, or the wait for one was so long that whoever waits for it looks all the same.
    pub is_block: bool,
}

/// Longest wait for what may never happen, or happened unseen: a node may keep an event from who asks for all of them.
pub const UNSEEN_MAX: Duration = Duration::from_secs(120);
