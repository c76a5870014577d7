//! The chain: blocks, accounts and pending transactions.

mod admission;
mod block;
mod clock;
mod constant_call;
mod development;
mod execute;
mod mining;
mod resources;
mod state;
mod vm;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use revm::primitives::B256;

pub(crate) use block::{Block, BlockId, Included, Witness};
pub(crate) use clock::Clock;
pub(crate) use constant_call::Answer;
pub(crate) use development::DevelopmentError;
pub(crate) use execute::{Outcome, check_deployment};
pub(crate) use resources::{MEMO_SUN, NEW_ACCOUNT_NET_SUN, free_used};
pub(crate) use state::{Account, State};
pub use vm::deployed_at;
pub(crate) use vm::{BlockEnvironment, Ending};

use crate::{
    Address, Options, Refusal,
    transaction::{Transaction, TxId},
};

/// Which part of the chain a request reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainView {
    /// All blocks, as `/wallet` shows them.
    Head,
    /// Those that no fork takes away, as `/walletsolidity` shows them.
    Solidified,
}

/// The whole chain; a clone shares what neither side changes.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    pub options: Options,
    witnesses: Arc<[Witness]>,
    /// The newest last. The oldest are dropped when there are too many.
    blocks: VecDeque<Arc<Block>>,
    /// After each block from the solidified one on, the newest last.
    states: VecDeque<Arc<State>>,
    solidified: u64,
    pending: Vec<Arc<Transaction>>,
    pending_bytes: usize,
    /// After the head and all that waits.
    pending_state: State,
    /// Whether questions about the head are answered after all that waits.
    shows_pending: bool,
    /// Where each transaction is: the block's number and the place in it.
    index: HashMap<TxId, (u64, usize)>,
    /// When each transaction that was taken expires, in milliseconds since 1970.
    seen: HashMap<TxId, i64>,
    /// Of all kept transactions, encoded.
    kept_bytes: usize,
    /// How often blocks were taken away.
    forks: u64,
    /// Sun that were ever given to accounts.
    issued: u64,
    clock: Clock,
}

impl Chain {
    /// A chain with its first block, of the time that `clock` shows.
    ///
    /// # Errors
    /// When the accounts are given more sun than there can be.
    pub fn new(options: Options, clock: Clock) -> Result<Self, StartError> {
        let now = clock.now();
        let mut state = State::default();
        let mut issued = 0_u64;
        for (address, sun) in &options.accounts {
            issued = issued.checked_add(*sun).filter(|sum| *sum <= SUN_MAX).ok_or(StartError::TooMuch)?;
            state.entry(*address, now).balance += sun;
        }
        Ok(Self {
            witnesses: Witness::all()?.into(),
            blocks: VecDeque::from([Arc::new(Block::first(options.chain_id, now))]),
            states: VecDeque::from([Arc::new(state.clone())]),
            solidified: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            pending_state: state,
            shows_pending: false,
            index: HashMap::new(),
            seen: HashMap::new(),
            kept_bytes: 0,
            forks: 0,
            issued,
            clock,
            options,
        })
    }

    /// The newest block that `view` shows.
    pub fn newest(&self, view: ChainView) -> &Arc<Block> {
        let at = match view {
            ChainView::Head => self.blocks.len() - 1,
            // The solidified block is never dropped.
            ChainView::Solidified => self.place(self.solidified).unwrap_or(0),
        };
        &self.blocks[at]
    }

    /// The head.
    pub fn head(&self) -> &Arc<Block> {
        self.newest(ChainView::Head)
    }

    /// The accounts after the newest block that `view` shows.
    pub fn state(&self, view: ChainView) -> &Arc<State> {
        let at = match view {
            ChainView::Head => self.states.len() - 1,
            ChainView::Solidified => 0,
        };
        &self.states[at]
    }

    /// The block at a height, where `view` shows it.
    pub fn by_number(&self, view: ChainView, number: u64) -> Option<&Arc<Block>> {
        if number > self.newest(view).number() {
            return None;
        }
        self.blocks.get(self.place(number)?)
    }

    /// The block with an id, where `view` shows it.
    pub fn by_id(&self, view: ChainView, id: &[u8; 32]) -> Option<&Arc<Block>> {
        let mut number = [0; 8];
        number.copy_from_slice(&id[..8]);
        self.by_number(view, u64::from_be_bytes(number)).filter(|block| block.id.0 == *id)
    }

    /// A transaction in a block, where `view` shows it.
    pub fn included(&self, view: ChainView, id: TxId) -> Option<(&Arc<Block>, &Included)> {
        let (number, place) = self.index.get(&id)?;
        let block = self.by_number(view, *number)?;
        Some((block, block.transactions.get(*place)?))
    }

    /// What waits for a block, the oldest first.
    pub fn pending(&self) -> &[Arc<Transaction>] {
        &self.pending
    }

    /// Milliseconds since 1970, by this chain's clock.
    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Who makes blocks, in turn.
    pub fn witnesses(&self) -> &[Witness] {
        &self.witnesses
    }

    /// What the head would say of a transaction, signed or not, which is then forgotten.
    ///
    /// # Errors
    /// When its fields, its owner or its funds do not fit.
    pub fn try_out(&self, transaction: &Transaction) -> Result<(), Refusal> {
        let mut state = State::clone(self.state(ChainView::Head));
        execute::execute(&mut state, &self.options, &self.next_environment(), transaction).map(drop)
    }

    /// Where the block at a height is kept.
    fn place(&self, number: u64) -> Option<usize> {
        let oldest = self.blocks.front()?.number();
        usize::try_from(number.checked_sub(oldest)?).ok()
    }

    /// Who makes the block at a height. A fork changes it, so that no block comes again with the same id.
    fn turn(&self, number: u64) -> &Witness {
        let count = self.witnesses.len();
        let turn = number.wrapping_add(self.forks) % count as u64;
        &self.witnesses[usize::try_from(turn).unwrap_or_default()]
    }

    /// The environment of the block after the head.
    pub fn next_environment(&self) -> BlockEnvironment {
        let head = self.head();
        let number = head.number() + 1;
        self.environment_in(number, self.now().max(head.time() + 1), self.turn(number).address)
    }

    /// The environment of pending transactions. Where its effects are shown, that is not a block, as Tron's nodes have it
    /// (java-tron's `VMActuator` where there is no block).
    fn pending_environment(&self) -> BlockEnvironment {
        let environment = self.next_environment();
        if self.shows_pending {
            BlockEnvironment { number: 0, parents: Vec::new(), ..environment }
        } else {
            environment
        }
    }

    /// The environment of a block at a height up to the next, with that time and that witness.
    fn environment_in(&self, number: u64, time: i64, witness: Address) -> BlockEnvironment {
        let place = self.place(number).unwrap_or(self.blocks.len());
        let parents = self.blocks.range(..place).rev().take(256).map(|block| B256::from(block.id.0)).collect();
        BlockEnvironment {
            chain_id: self.options.chain_id,
            number,
            time,
            witness,
            energy_price_sun: self.options.energy_price_sun,
            parents,
        }
    }
}

/// All the sun there can be: Tron's amounts are signed 64-bit numbers.
pub(crate) const SUN_MAX: u64 = i64::MAX as u64;

/// Why a chain does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// More sun than a signed 64-bit number holds.
    #[error("the accounts have more than {SUN_MAX} sun together")]
    TooMuch,
    /// The witnesses' keys cannot be made.
    #[error("{0}")]
    Witnesses(#[from] Refusal),
    /// The port cannot be had.
    #[error("listening: {0}")]
    Listen(#[from] std::io::Error),
}
