//! Blocks, reorganisations and the fee market.

use std::{collections::BTreeSet, sync::Arc};

use alloy::{
    consensus::Transaction,
    primitives::{Address, B256, Log},
    sol_types::SolEvent,
};
use revm::context::result::ExecutionResult;

use chains_evm::node::BlockRef;
use escrow_abi::contracts::DevToken;

use super::{
    SimChain, SimError,
    block::{self, Block, Mined},
    pool::Waiting,
    state::{Snapshot, State},
    vm::{self, BLOCK_GAS, BlockEnvironment, Rules},
};

/// The base fee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseFee {
    /// By EIP-1559 from block to block.
    Market,
    /// The same in every block from the next one on, wei; what offers less waits.
    Pinned(u64),
}

/// What happens to the transactions of blocks that a reorganisation drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// No node knows them any more; the new blocks are empty.
    Forgotten,
    /// They wait again; the new blocks are empty.
    Pooled,
    /// They are in the newest of the new blocks, with all else that waits, lowest tip and last comer first.
    Reordered,
}

/// What a reorganisation did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reorganised {
    /// The newest block that both branches have.
    pub common: BlockRef,
    /// The newest block of the new branch.
    pub head: BlockRef,
    /// The transactions of the dropped blocks, oldest first.
    pub transactions: Vec<B256>,
}

/// Which of the transactions that may be next is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// What pays the block's maker most, the first comer among equals.
    BestFirst,
    /// The other way round.
    WorstFirst,
    /// None.
    Empty,
}

impl SimChain {
    pub(super) fn head_block(&self) -> &Arc<Block> {
        // The branch begins with block 0, which nothing removes.
        &self.branch[self.branch.len() - 1]
    }

    /// The newest block.
    pub fn head(&self) -> BlockRef {
        reference(self.head_block())
    }

    /// The block of the tag `safe`.
    pub fn safe(&self) -> BlockRef {
        reference(&self.branch[index_of(self.safe_number(self.branch.len() as u64 - 1))])
    }

    /// The block of the tag `finalized`, which no reorganisation drops.
    pub fn finalized(&self) -> BlockRef {
        reference(&self.branch[index_of(self.finalized)])
    }

    pub(super) fn safe_number(&self, head: u64) -> u64 {
        head.saturating_sub(self.safe_lag).max(self.finalized.min(head))
    }

    /// Sets how many blocks the tags are behind the newest. What is finalized stays so.
    pub fn set_lags(&mut self, safe: u64, finalized: u64) {
        (self.safe_lag, self.finalized_lag) = (safe, finalized);
        self.finalize();
    }

    fn finalize(&mut self) {
        let head = self.branch.len() as u64 - 1;
        self.finalized = self.finalized.max(head.saturating_sub(self.finalized_lag));
    }

    /// Sets the base fee of the blocks to come.
    pub fn set_base_fee(&mut self, fee: BaseFee) {
        self.base_fee = fee;
    }

    /// Makes the next block, with what waits and offers enough.
    ///
    /// # Errors
    /// [`SimError::Time`] when `time`, in UNIX seconds, is not past the newest block's.
    pub fn mine(&mut self, time: u64) -> Result<BlockRef, SimError> {
        let head = self.head().time;
        if time <= head {
            return Err(SimError::Time { time, head });
        }
        self.extend(time, Order::BestFirst);
        self.finalize();
        Ok(self.head())
    }

    /// Makes one block of the UNIX second `time`, unless there is one that late already.
    pub fn advance_to(&mut self, time: u64) -> BlockRef {
        self.mine(time).unwrap_or_else(|_| self.head())
    }

    /// Replaces the `depth` newest blocks by as many others of the same times.
    ///
    /// # Errors
    /// [`SimError::Final`] when the finalized block is among them.
    pub fn reorganise(&mut self, depth: u64, dropped: Dropped) -> Result<Reorganised, SimError> {
        let head = self.head().number;
        if depth > head - self.finalized {
            return Err(SimError::Final { depth, head, finalized: self.finalized });
        }
        self.fork = self.branch.clone();
        self.fork_finalized = self.finalized;
        self.reorganisations += 1;
        let old = self.branch.split_off(index_of(head - depth + 1));
        let common = self.head();
        let mined = old.iter().flat_map(|block| &block.transactions).map(|mined| &mined.transaction);
        let mined: Vec<_> = mined.cloned().collect();
        let transactions = mined.iter().map(|transaction| transaction.hash()).collect();
        if dropped != Dropped::Forgotten {
            mined.into_iter().for_each(|transaction| self.pool.put_back(transaction));
        }
        for (index, block) in old.iter().enumerate() {
            let newest = index + 1 == old.len();
            let order = if newest && dropped == Dropped::Reordered { Order::WorstFirst } else { Order::Empty };
            self.extend(block.header.timestamp, order);
        }
        Ok(Reorganised { common, head: self.head(), transactions })
    }

    /// The environment of the next block.
    pub(super) fn next_environment(&self, time: u64) -> BlockEnvironment {
        let parent = self.head_block();
        let base_fee = match self.base_fee {
            BaseFee::Market => parent.next_base_fee(),
            BaseFee::Pinned(fee) => fee,
        };
        BlockEnvironment {
            evm_id: self.evm_id(),
            number: parent.header.number + 1,
            time,
            base_fee,
            randao: block::randao(parent.hash, self.reorganisations),
        }
    }

    fn extend(&mut self, time: u64, order: Order) {
        let environment = self.next_environment(time);
        let (transactions, state) = self.fill(&environment, order);
        let parent = self.head_block();
        let logs = transactions.iter().flat_map(|mined| &mined.logs);
        let holders = with_receivers(&parent.holders, logs, &self.contracts().tokens);
        let block = Block::seal(Some(parent), &environment, transactions, state, holders);
        self.branch.push(Arc::new(block));
        let head = Arc::clone(self.head_block());
        self.pool.prune(|sender| head.state.account(sender).nonce);
    }

    fn fill(&self, environment: &BlockEnvironment, order: Order) -> (Vec<Mined>, State) {
        let mut state = self.head_block().state.clone();
        let mut mined: Vec<Mined> = Vec::new();
        let mut refused: BTreeSet<Address> = BTreeSet::new();
        let mut gas = 0u64;
        while let Some(waiting) = self.next(&state, environment, order, BLOCK_GAS - gas, &refused) {
            let signed = &waiting.transaction;
            let snapshot = Snapshot { state: &state, branch: &self.branch };
            // A sender that cannot pay any more waits with all that follows.
            let Ok(outcome) = vm::run(snapshot, environment, signed.transaction_environment(), Rules::Mined) else {
                refused.insert(signed.sender);
                continue;
            };
            state.apply(outcome.state);
            let gas_used = outcome.result.tx_gas_used();
            gas += gas_used;
            let (success, logs) = match outcome.result {
                ExecutionResult::Success { logs, .. } => (true, logs),
                ExecutionResult::Revert { .. } | ExecutionResult::Halt { .. } => (false, Vec::new()),
            };
            mined.push(Mined {
                transaction: Arc::clone(signed),
                success,
                gas_used,
                cumulative_gas_used: gas,
                gas_price: signed.envelope.effective_gas_price(Some(environment.base_fee)),
                created: block::created(signed.envelope.kind(), signed.sender, signed.nonce()),
                logs,
            });
        }
        (mined, state)
    }

    fn next(
        &self,
        state: &State,
        environment: &BlockEnvironment,
        order: Order,
        gas: u64,
        refused: &BTreeSet<Address>,
    ) -> Option<&Waiting> {
        let ready = self
            .pool
            .senders()
            .filter(|sender| !refused.contains(sender))
            .filter_map(|sender| self.pool.at(sender, state.account(sender).nonce))
            .filter(|waiting| waiting.not_before <= environment.number)
            .filter(|waiting| waiting.transaction.envelope.gas_limit() <= gas)
            .filter_map(|waiting| {
                let tip = waiting.transaction.tip(environment.base_fee)?;
                Some(((tip, u64::MAX - waiting.arrival), waiting))
            });
        match order {
            Order::BestFirst => ready.max_by_key(|(rank, _)| *rank),
            Order::WorstFirst => ready.min_by_key(|(rank, _)| *rank),
            Order::Empty => None,
        }
        .map(|(_, waiting)| waiting)
    }
}

/// `holders` with all that `logs` send tokens to.
fn with_receivers<'a>(
    holders: &Arc<BTreeSet<Address>>,
    logs: impl Iterator<Item = &'a Log>,
    tokens: &[Address],
) -> Arc<BTreeSet<Address>> {
    let mut holders = Arc::clone(holders);
    for log in logs.filter(|log| tokens.contains(&log.address)) {
        if let Ok(transfer) = DevToken::Transfer::decode_log(log)
            && !holders.contains(&transfer.to)
        {
            Arc::make_mut(&mut holders).insert(transfer.to);
        }
    }
    holders
}

pub(super) fn reference(block: &Block) -> BlockRef {
    BlockRef { number: block.header.number, hash: block.hash, time: block.header.timestamp }
}

/// The index of a block in its branch.
pub(super) fn index_of(number: u64) -> usize {
    // A branch has a block for each number, so the number of one that it has fits.
    usize::try_from(number).unwrap_or(usize::MAX)
}
