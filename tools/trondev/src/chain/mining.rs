//! Block production.

use std::{collections::HashMap, sync::Arc};

use super::{Block, BlockId, Chain, ChainView, Included, execute::execute, state::State};
use crate::{
    Refusal,
    transaction::{Transaction, TxId},
};

/// How many blocks are kept: as many as transactions can name.
const BLOCKS_KEPT: usize = 65_536;
/// How many bytes of transactions are kept in blocks that are solidified.
const BYTES_KEPT: usize = 256 * 1024 * 1024;
/// How many bytes of transactions fit a block.
const BLOCK_BYTES_MAX: usize = 2_000_000;

impl Chain {
    /// Makes a block of what waits. What no longer fits the chain is dropped, what does not fit the block goes on waiting.
    ///
    /// # Errors
    /// When the block cannot be signed.
    pub fn mine(&mut self) -> Result<BlockId, Refusal> {
        let all = std::mem::take(&mut self.pending);
        self.mine_of(all, Vec::new())
    }

    /// Makes a block of those that wait with these ids, in this order; the others go on waiting. What no longer fits the chain is
    /// dropped.
    ///
    /// # Errors
    /// When the block cannot be signed.
    pub fn mine_chosen(&mut self, chosen: &[TxId]) -> Result<BlockId, Refusal> {
        let waiting = std::mem::take(&mut self.pending);
        let (taken, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|one| chosen.contains(&one.id));
        let taken = chosen.iter().filter_map(|id| taken.iter().find(|one| one.id == *id).cloned()).collect();
        self.mine_of(taken, later)
    }

    fn mine_of(&mut self, taken: Vec<Arc<Transaction>>, mut later: Vec<Arc<Transaction>>) -> Result<BlockId, Refusal> {
        let environment = self.next_environment();
        let mut state = State::clone(self.state(ChainView::Head));
        let (mut transactions, mut bytes) = (Vec::new(), 0);
        for transaction in taken {
            let size = transaction.size();
            if bytes + size > BLOCK_BYTES_MAX {
                later.push(transaction);
                continue;
            }
            // The head may have become another one since it was taken.
            let checked = self.check_reference(&transaction).and_then(|()| self.check_expiration(&transaction));
            let run = checked.and_then(|()| execute(&mut state, &self.options, &environment, &transaction));
            match run {
                Ok(outcome) => {
                    bytes += size;
                    transactions.push(Included { transaction, outcome });
                }
                Err(refusal) => self.forget(&transaction, &refusal),
            }
        }
        let block = Block::after(self.head(), environment.time, self.turn(environment.number), transactions)?;
        let id = block.id;
        for (place, included) in block.transactions.iter().enumerate() {
            self.index.insert(included.transaction.id, (environment.number, place));
        }
        self.kept_bytes += block.bytes;
        self.blocks.push_back(Arc::new(block));
        self.states.push_back(Arc::new(state));
        self.solidify();
        self.drop_oldest();
        self.forget_expired();
        self.wait_again(later);
        Ok(id)
    }

    /// Lets `transactions` wait, on what the head holds now; those that do not fit it are dropped.
    pub(super) fn wait_again(&mut self, transactions: Vec<Arc<Transaction>>) {
        self.pending_state = State::clone(self.state(ChainView::Head));
        self.pending.clear();
        self.pending_bytes = 0;
        let environment = self.pending_environment();
        for transaction in transactions {
            let checked = self.check_reference(&transaction).and_then(|()| self.check_expiration(&transaction));
            let run =
                checked.and_then(|()| execute(&mut self.pending_state, &self.options, &environment, &transaction));
            match run {
                Ok(_) => {
                    self.pending_bytes += transaction.size();
                    self.pending.push(transaction);
                }
                Err(refusal) => self.forget(&transaction, &refusal),
            }
        }
    }

    /// Lets a dropped transaction be sent again.
    pub(super) fn forget(&mut self, transaction: &Transaction, refusal: &Refusal) {
        tracing::info!(id = %transaction.id, %refusal, "a transaction that waited was dropped");
        self.seen.remove(&transaction.id);
    }

    fn solidify(&mut self) {
        let head = self.head().number();
        let solidified = head.saturating_sub(self.options.solidified_lag).max(self.solidified);
        for _ in self.solidified..solidified {
            self.states.pop_front();
        }
        self.solidified = solidified;
    }

    fn drop_oldest(&mut self) {
        while self.blocks.len() > BLOCKS_KEPT || self.kept_bytes > BYTES_KEPT {
            if self.blocks.front().is_none_or(|block| block.number() >= self.solidified) {
                return;
            }
            if let Some(block) = self.blocks.pop_front() {
                self.kept_bytes -= block.bytes;
                for included in &block.transactions {
                    self.index.remove(&included.transaction.id);
                }
            }
        }
    }

    /// An expired transaction is refused for that, so that it need not be remembered.
    fn forget_expired(&mut self) {
        let time = self.head().time();
        let index = &self.index;
        retain(&mut self.seen, |id, expiration| expiration > time || index.contains_key(id));
    }
}

fn retain<K: Eq + std::hash::Hash>(map: &mut HashMap<K, i64>, keep: impl Fn(&K, i64) -> bool) {
    map.retain(|key, value| keep(key, *value));
}
