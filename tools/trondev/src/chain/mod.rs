//! The chain: its blocks, its accounts and what waits.

mod admission;
mod block;
mod development;
mod execute;
mod mining;
mod questions;
mod resources;
mod state;
mod vm;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use revm::primitives::B256;

pub(crate) use block::{Block, BlockId, Included, Witness};
pub(crate) use development::DevelopmentError;
pub(crate) use execute::{Outcome, check_deployment};
pub(crate) use questions::Answer;
pub(crate) use resources::{MEMO_SUN, NEW_ACCOUNT_NET_SUN, free_used};
pub(crate) use state::{Account, State};
pub use vm::deployed_at;
pub(crate) use vm::{Ending, Surroundings};

use crate::{
    Address, Options, Refusal,
    transaction::{Transaction, TxId},
};

/// Which part of the chain a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// All blocks, as `/wallet` shows them.
    Head,
    /// Those that no fork takes away, as `/walletsolidity` shows them.
    Solidified,
}

/// The whole chain.
#[derive(Debug)]
pub(crate) struct Chain {
    pub options: Options,
    witnesses: Vec<Witness>,
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
    /// Milliseconds that this chain's clock is ahead of the machine's.
    clock_ahead: i64,
}

impl Chain {
    /// A chain with its first block.
    ///
    /// # Errors
    /// When the accounts are given more sun than there can be.
    pub fn new(options: Options) -> Result<Self, StartError> {
        let now = machine_time();
        let mut state = State::default();
        let mut issued = 0_u64;
        for (address, sun) in &options.accounts {
            issued = issued.checked_add(*sun).filter(|sum| *sum <= SUN_MAX).ok_or(StartError::TooMuch)?;
            state.entry(*address, now).balance += sun;
        }
        Ok(Self {
            witnesses: Witness::all()?,
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
            clock_ahead: 0,
            options,
        })
    }

    /// The newest block that `sight` shows.
    pub fn newest(&self, sight: Sight) -> &Arc<Block> {
        let at = match sight {
            Sight::Head => self.blocks.len() - 1,
            // The solidified block is never dropped.
            Sight::Solidified => self.place(self.solidified).unwrap_or(0),
        };
        &self.blocks[at]
    }

    /// The head.
    pub fn head(&self) -> &Arc<Block> {
        self.newest(Sight::Head)
    }

    /// The accounts after the newest block that `sight` shows.
    pub fn state(&self, sight: Sight) -> &Arc<State> {
        let at = match sight {
            Sight::Head => self.states.len() - 1,
            Sight::Solidified => 0,
        };
        &self.states[at]
    }

    /// The block at a height, where `sight` shows it.
    pub fn by_number(&self, sight: Sight, number: u64) -> Option<&Arc<Block>> {
        if number > self.newest(sight).number() {
            return None;
        }
        self.blocks.get(self.place(number)?)
    }

    /// The block with an id, where `sight` shows it.
    pub fn by_id(&self, sight: Sight, id: &[u8; 32]) -> Option<&Arc<Block>> {
        let mut number = [0; 8];
        number.copy_from_slice(&id[..8]);
        self.by_number(sight, u64::from_be_bytes(number)).filter(|block| block.id.0 == *id)
    }

    /// A transaction in a block, where `sight` shows it.
    pub fn included(&self, sight: Sight, id: TxId) -> Option<(&Arc<Block>, &Included)> {
        let (number, place) = self.index.get(&id)?;
        let block = self.by_number(sight, *number)?;
        Some((block, block.transactions.get(*place)?))
    }

    /// What waits for a block, the oldest first.
    pub fn pending(&self) -> &[Arc<Transaction>] {
        &self.pending
    }

    /// Milliseconds since 1970, by this chain's clock.
    pub fn now(&self) -> i64 {
        machine_time().saturating_add(self.clock_ahead)
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
        let mut state = State::clone(self.state(Sight::Head));
        execute::execute(&mut state, &self.options, &self.surroundings(), transaction).map(drop)
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

    /// What code in the block after the head would see.
    pub fn surroundings(&self) -> Surroundings {
        let head = self.head();
        let number = head.number() + 1;
        self.surroundings_in(number, self.now().max(head.time() + 1), self.turn(number).address)
    }

    /// What code sees that runs for what waits. Where its effects are shown, that is no block, as Tron's nodes have it
    /// (java-tron's `VMActuator` where there is no block).
    fn waiting_surroundings(&self) -> Surroundings {
        let around = self.surroundings();
        if self.shows_pending { Surroundings { number: 0, parents: Vec::new(), ..around } } else { around }
    }

    /// What code in a block at a height up to the next sees, where the block has that time and that witness.
    fn surroundings_in(&self, number: u64, time: i64, witness: Address) -> Surroundings {
        let place = self.place(number).unwrap_or(self.blocks.len());
        let parents = self.blocks.range(..place).rev().take(256).map(|block| B256::from(block.id.0)).collect();
        Surroundings {
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

fn machine_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
