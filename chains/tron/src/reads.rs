//! Reads: what a contract had on record, with the block that it answered by.
//!
//! A node does not say by which block it answers a call, so the contracts say it themselves (`recordAsOf`, `fulfilledAsOf`).
//! A record counts only as far as its changes lie at or below a solidified block that two answers had; that something is
//! *not* on record is read twice, each time no earlier than that block. What is concluded from the time is concluded from that
//! block's own: an answer's clock is only the answering node's word.

use alloy::primitives::U256;

use sagas::ports::Transient;

use super::node::{Block, Node};

/// What a contract had on record at one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read<T> {
    /// The block's number.
    pub number: u64,
    /// Its time as contracts see it, UNIX seconds.
    pub time: u64,
    /// The record; `None` when there is none.
    pub record: Option<T>,
}

impl<T> Read<T> {
    /// What `node` answered as of that block.
    ///
    /// # Errors
    /// [`Transient`] for numbers that no block has.
    pub fn new(node: &Node, number: U256, time: U256, record: Option<T>) -> Result<Self, Transient> {
        match (u64::try_from(number), u64::try_from(time)) {
            (Ok(number), Ok(time)) => Ok(Self { number, time, record }),
            _ => Err(node.contradiction("an answer as of no block that can be")),
        }
    }

    /// Refuses an answer of the solidified state that is older than what is known to be solidified, or of the same block with
    /// another time.
    ///
    /// # Errors
    /// [`Transient`].
    pub fn at_least(self, settled: &Block, node: &Node) -> Result<Self, Transient> {
        let seconds = settled.seconds();
        if self.number > settled.number && self.time >= seconds || self.number == settled.number && self.time == seconds
        {
            return Ok(self);
        }
        let Self { number, time, .. } = self;
        let what = format!("an answer as of block {number} at {time} where {} at {seconds} is settled", settled.number);
        Err(node.contradiction(what))
    }
}
