//! Blocks, skipped slots and forks.

use std::sync::Arc;

use super::{
    SimCluster, SimError,
    block::{self, Block, Landed},
    node_view::age_of,
    pool::Waiting,
    runtime::Moment,
    state::State,
};

/// A block by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// The slot.
    pub slot: u64,
    /// The block height.
    pub height: u64,
    /// The blockhash.
    pub hash: [u8; 32],
    /// The UNIX second of the cluster's clock.
    pub time: u64,
}

/// What happens to the transactions of blocks that a fork drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The leaders know them no more; the new blocks are empty.
    Forgotten,
    /// They wait again; the new blocks are empty.
    Pooled,
    /// They are in the first of the new blocks, with all else that waits.
    Again,
    /// The same, the lowest price and the last comer first.
    Reordered,
    /// Every second one is in the first of the new blocks; the others are known no more.
    Halved,
}

/// The slots of the blocks that come in the place of dropped ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// Later ones: the slots of dropped blocks have no block on the branch that wins.
    Later,
    /// The same ones: their leaders made two blocks each.
    Same,
}

/// What a fork did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The newest block that both branches have.
    pub common: BlockRef,
    /// The newest block of the new branch.
    pub head: BlockRef,
    /// The first signatures of the dropped blocks' transactions, oldest first.
    pub signatures: Vec<[u8; 64]>,
}

/// Which of the transactions that wait come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// What offers most, the first comer among equals.
    BestFirst,
    /// The other way round.
    WorstFirst,
    /// None.
    Empty,
}

impl SimCluster {
    pub(super) fn head_block(&self) -> &Arc<Block> {
        // The branch begins with the genesis, which nothing removes.
        &self.branch[self.branch.len() - 1]
    }

    /// The newest block.
    pub fn head(&self) -> BlockRef {
        reference(self.head_block())
    }

    /// The newest finalized block.
    pub fn finalized(&self) -> BlockRef {
        reference(&self.branch[self.finalized])
    }

    /// Makes the next block, with what waits.
    ///
    /// # Errors
    /// [`SimError::Time`] when `time`, in UNIX seconds, is before the newest block's.
    pub fn produce(&mut self, time: u64) -> Result<BlockRef, SimError> {
        let head = self.head().time;
        if time < head {
            return Err(SimError::Time { time, head });
        }
        self.extend(self.next_slot, time, Order::BestFirst)?;
        self.finalize();
        Ok(self.head())
    }

    /// Lets the leaders of the next `slots` slots make no block.
    pub fn skip(&mut self, slots: u64) {
        self.next_slot += slots;
    }

    /// Drops the `depth` newest blocks, and makes as many others of the same times.
    ///
    /// # Errors
    /// [`SimError::Final`] when a finalized block is among them.
    pub fn fork(&mut self, depth: usize, dropped: Dropped, slots: Slots) -> Result<Forked, SimError> {
        let newest = self.branch.len() - 1;
        if depth > newest - self.finalized {
            let (head, finalized) = (self.head().slot, self.finalized().slot);
            return Err(SimError::Final { depth, head, finalized });
        }
        self.fork = self.branch.clone();
        self.fork_finalized = self.finalized;
        self.forks += 1;
        let old = self.branch.split_off(newest + 1 - depth);
        let landed: Vec<_> = old.iter().flat_map(|block| &block.landed).map(|landed| landed.signed.clone()).collect();
        let signatures = landed.iter().map(|signed| signed.signature).collect();
        let common = self.head();
        let kept = |place: usize| match dropped {
            Dropped::Forgotten => false,
            Dropped::Halved => place.is_multiple_of(2),
            Dropped::Pooled | Dropped::Again | Dropped::Reordered => true,
        };
        let kept = landed.into_iter().enumerate().filter(|(place, _)| kept(*place));
        kept.for_each(|(_, signed)| self.pool.add(signed));
        for (place, block) in old.iter().enumerate() {
            let order = match dropped {
                Dropped::Again | Dropped::Halved if place == 0 => Order::BestFirst,
                Dropped::Reordered if place == 0 => Order::WorstFirst,
                _ => Order::Empty,
            };
            let slot = if slots == Slots::Same { block.slot } else { self.next_slot };
            self.extend(slot, block.time, order)?;
        }
        Ok(Forked { common, head: self.head(), signatures })
    }

    fn finalize(&mut self) {
        self.finalized = self.finalized.max((self.branch.len() - 1).saturating_sub(self.timing.finalized_lag));
    }

    fn extend(&mut self, slot: u64, time: u64, order: Order) -> Result<(), SimError> {
        let parent = self.head_block().clone();
        let moment = Moment { slot, time };
        let (landed, state) = self.fill(moment, order)?;
        let block = Block {
            slot,
            parent_slot: parent.slot,
            height: parent.height + 1,
            blockhash: block::blockhash(&parent.blockhash, slot, self.forks, &landed),
            previous_blockhash: parent.blockhash,
            time,
            landed,
            state,
        };
        self.next_slot = self.next_slot.max(slot + 1);
        self.branch.push(Arc::new(block));
        Ok(())
    }

    /// The transactions of the next block, and the state after it.
    fn fill(&mut self, moment: Moment, order: Order) -> Result<(Vec<Landed>, State), SimError> {
        let mut state = self.head_block().state.clone();
        let mut landed: Vec<Landed> = Vec::new();
        for waiting in self.ready(moment.slot, order) {
            let signed = waiting.signed;
            let has_landed = landed.iter().any(|landed| landed.signed.signature == signed.signature);
            let is_recent = age_of(&self.branch, &signed.blockhash(), self.timing.blockhash_age).is_some();
            if has_landed || !is_recent || self.is_on_branch(&signed.signature) {
                self.pool.remove(&signed.signature);
                continue;
            }
            let keys: Vec<_> = signed.keys().iter().map(|key| key.to_bytes()).collect();
            let account = |cluster: &Self, state: &State, key| cluster.runtime.account(state, key).cloned();
            let before: Vec<_> = keys.iter().map(|key| account(self, &state, key)).collect();
            let unchanged = state.clone();
            let execution = self.runtime.execute(&mut state, moment, &signed)?;
            self.pool.remove(&signed.signature);
            if !execution.is_paid {
                // No block holds what cannot pay for it.
                state = unchanged;
                continue;
            }
            let after = keys.iter().map(|key| account(self, &state, key));
            let accounts = before.into_iter().zip(after).collect();
            landed.push(Landed { signed, execution, accounts });
        }
        Ok((landed, state))
    }

    fn ready(&self, slot: u64, order: Order) -> Vec<Waiting> {
        let waiting = self.pool.all().iter().filter(|waiting| waiting.not_before <= slot);
        let mut ready: Vec<Waiting> = waiting.cloned().collect();
        ready.sort_by_key(|waiting| (waiting.signed.price(), u64::MAX - waiting.arrival));
        match order {
            Order::BestFirst => ready.reverse(),
            Order::WorstFirst => {}
            Order::Empty => ready.clear(),
        }
        ready
    }

    /// Whether a transaction is in a block in which its blockhash could be.
    fn is_on_branch(&self, signature: &[u8; 64]) -> bool {
        let recent = self.branch.iter().rev().take(usize::try_from(self.timing.blockhash_age).unwrap_or(usize::MAX));
        recent.flat_map(|block| &block.landed).any(|landed| landed.signed.signature == *signature)
    }
}

pub(super) fn reference(block: &Block) -> BlockRef {
    BlockRef { slot: block.slot, height: block.height, hash: block.blockhash, time: block.time }
}
