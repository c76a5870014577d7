//! Admission control: the checks on a transaction before it waits for a block, in the order of Tron's nodes.

use std::sync::Arc;

use super::{Chain, execute::execute};
use crate::{
    Refusal,
    chain::ChainView,
    signature,
    transaction::{BYTES_MAX, Transaction, TxId},
};

/// How many transactions may wait.
const PENDING_MAX: usize = 2_000;
/// How many bytes may wait.
const PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How far ahead an expiration may lie: a day.
const EXPIRATION_MS_MAX: i64 = 24 * 60 * 60 * 1000;

impl Chain {
    /// Takes a transaction that waits for the next block from now on.
    ///
    /// # Errors
    /// When the network would refuse it.
    pub fn broadcast(&mut self, transaction: Transaction) -> Result<TxId, Refusal> {
        let size = transaction.size();
        if self.pending.len() >= PENDING_MAX || self.pending_bytes + size > PENDING_BYTES_MAX {
            return Err(Refusal::Busy);
        }
        signature::check(&transaction)?;
        self.check_reference(&transaction)?;
        if size > BYTES_MAX {
            return Err(Refusal::TooBig);
        }
        self.check_expiration(&transaction)?;
        let id = transaction.id;
        if self.seen.contains_key(&id) {
            return Err(Refusal::Duplicate);
        }
        let environment = self.pending_environment();
        execute(&mut self.pending_state, &self.options, &environment, &transaction)?;
        self.seen.insert(id, transaction.raw.expiration);
        self.pending_bytes += size;
        self.pending.push(Arc::new(transaction));
        Ok(id)
    }

    /// The reference block must be one of the last 65536.
    pub(super) fn check_reference(&self, transaction: &Transaction) -> Result<(), Refusal> {
        let named: [u8; 2] = transaction.raw.ref_block_bytes.as_slice().try_into().map_err(|_| Refusal::Tapos)?;
        let head = self.head().number();
        // The number's last two bytes say which one: one of 65536.
        let back = u64::from((head as u16).wrapping_sub(u16::from_be_bytes(named)));
        let number = head.checked_sub(back).ok_or(Refusal::Tapos)?;
        let block = self.by_number(ChainView::Head, number).ok_or(Refusal::Tapos)?;
        let (_, hash) = block.id.reference();
        if transaction.raw.ref_block_hash != hash {
            return Err(Refusal::Tapos);
        }
        Ok(())
    }

    /// The expiration must lie after the head's time, and at most a day after it.
    pub(super) fn check_expiration(&self, transaction: &Transaction) -> Result<(), Refusal> {
        let head = self.head().time();
        let expiration = transaction.raw.expiration;
        if expiration <= head || expiration > head.saturating_add(EXPIRATION_MS_MAX) {
            return Err(Refusal::Expired);
        }
        Ok(())
    }
}
