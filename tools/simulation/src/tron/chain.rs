//! Blocks, forks and what waits for a block.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
};

use alloy::{
    primitives::{Address, B256, Log, U256, keccak256},
    sol_types::{SolEvent, SolValue},
};

use escrow_abi::contracts::DevToken;
use trondev::{BlockRef, LocalNode, TxId};

use super::{template::Contracts, view::Made};
use crate::chain::Dropped;

/// Milliseconds from slot to slot.
pub const BLOCK_MS: i64 = 3_000;
/// So many blocks a node may be behind.
const BEHIND_MAX: usize = 12;

/// A chain that its transports and the world share.
pub type SharedTron = Arc<Mutex<SimTron>>;

/// What the chain does not do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TronError {
    /// The node refuses a transaction.
    #[error("{code}: {0}", code = .0.code())]
    Refused(#[from] trondev::Refusal),
    /// A block is to be made before the newest.
    #[error("a block of {time_ms} ms after one of {head_ms} ms")]
    Time {
        /// The time that was asked for.
        time_ms: i64,
        /// The newest block's.
        head_ms: i64,
    },
    /// A solidified block is to be left.
    #[error("{depth} blocks below {head} are to be left, and {solidified} is solidified")]
    Solidified {
        /// Blocks to be left.
        depth: u64,
        /// The newest block.
        head: u64,
        /// The newest solidified block.
        solidified: u64,
    },
    /// Something else.
    #[error("{0}")]
    Other(String),
}

/// A transaction in a canonical block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mined {
    /// The block's number.
    pub number: u64,
    /// The block's id.
    pub block: B256,
    /// The block's time as contracts see it, UNIX seconds.
    pub time: u64,
    /// Its id.
    pub id: B256,
    /// Who signed it and pays.
    pub owner: Address,
    /// The contract that it calls, and with what.
    pub call: Option<(Address, Vec<u8>)>,
    /// Its result as the protocol names it, for example `OUT_OF_ENERGY`.
    pub result: &'static str,
    /// What contracts logged, in order.
    pub logs: Vec<Log>,
    /// All that was burnt for it, in sun.
    pub fee_sun: u64,
}

impl Mined {
    /// Whether it had its effect.
    pub fn succeeded(&self) -> bool {
        self.result == "SUCCESS"
    }
}

/// What a fork did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reorganised {
    /// The newest block that both branches have.
    pub common: u64,
    /// The transactions of the blocks that were left, oldest first.
    pub transactions: Vec<B256>,
}

/// One chain.
pub struct SimTron {
    pub(super) contracts: Arc<Contracts>,
    /// What an honest node has.
    pub(super) node: LocalNode,
    /// What it had ahead of each of the last blocks, the newest last.
    pub(super) past: VecDeque<LocalNode>,
    /// What it had before the last fork.
    pub(super) fork: Option<LocalNode>,
    /// What a liar made up last.
    pub(super) made: Option<Made>,
    /// The transactions of all canonical blocks.
    mined: Vec<Mined>,
    /// Everyone who was ever sent tokens on any branch.
    holders: BTreeSet<Address>,
    /// The first block that may hold a transaction that waits.
    not_before: BTreeMap<TxId, u64>,
    /// Makes transactions differ that would else be one.
    pub(super) stamp: u64,
}

impl SimTron {
    pub(super) fn new(contracts: Arc<Contracts>, node: LocalNode) -> Self {
        let mut chain = Self {
            contracts,
            node,
            past: VecDeque::new(),
            fork: None,
            made: None,
            mined: Vec::new(),
            holders: BTreeSet::new(),
            not_before: BTreeMap::new(),
            stamp: 0,
        };
        (0..=chain.head().number).for_each(|number| chain.note_block(number));
        chain
    }

    /// The chain, to be shared.
    pub fn shared(self) -> SharedTron {
        Arc::new(Mutex::new(self))
    }

    /// Where the contracts are.
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// The newest block.
    pub fn head(&self) -> BlockRef {
        self.node.head()
    }

    /// The newest solidified block, which no fork takes away.
    pub fn solidified(&self) -> BlockRef {
        self.node.solidified()
    }

    /// The transactions of all canonical blocks, oldest first.
    pub fn mined(&self) -> &[Mined] {
        &self.mined
    }

    /// The canonical block at a height.
    pub fn block(&self, number: u64) -> Option<BlockRef> {
        self.node.block(number)
    }

    /// How many blocks the solidified one is behind the newest from the next block on. What is solidified stays so.
    pub fn set_solidified_lag(&mut self, blocks: u64) {
        self.node.set_solidified_lag(blocks);
    }

    /// Sets the price of energy from the next block on, in sun.
    pub fn set_energy_price(&mut self, sun: u64) {
        self.node.set_energy_price(sun);
    }

    /// Whether full nodes answer after what waits, as those of the network do, or after blocks alone.
    pub fn show_pending(&mut self, are_shown: bool) {
        self.node.show_pending(are_shown);
    }

    /// Gives sun to an account, out of nothing.
    pub fn fund(&mut self, account: Address, sun: u64) {
        self.node.fund(trondev::Address::from_evm(account), sun);
    }

    /// Takes all sun from an account; how much that was.
    pub fn drain(&mut self, account: Address) -> u64 {
        self.node.drain(trondev::Address::from_evm(account))
    }

    /// Makes the next block, of what waits and is not held back.
    ///
    /// # Errors
    /// [`TronError::Time`] when `time_ms` is not past the newest block's.
    pub fn mine(&mut self, time_ms: i64) -> Result<BlockRef, TronError> {
        let head_ms = self.head().time_ms;
        if time_ms <= head_ms {
            return Err(TronError::Time { time_ms, head_ms });
        }
        let number = self.head().number + 1;
        let pending = self.node.pending().into_iter().map(|one| one.id);
        let chosen: Vec<_> = pending.filter(|id| self.not_before.get(id).is_none_or(|from| *from <= number)).collect();
        self.extend(time_ms, &chosen)
    }

    fn extend(&mut self, time_ms: i64, chosen: &[TxId]) -> Result<BlockRef, TronError> {
        self.past.push_back(self.node.clone());
        if self.past.len() > BEHIND_MAX {
            self.past.pop_front();
        }
        let block = self.node.mine_chosen(time_ms, chosen)?;
        self.note_block(block.number);
        Ok(block)
    }

    fn note_block(&mut self, number: u64) {
        let Some(block) = self.node.block(number) else { return };
        for held in self.node.transactions(number) {
            self.not_before.remove(&held.id);
            for log in held.logs.iter().filter(|log| log.address == self.contracts.token) {
                if let Ok(transfer) = DevToken::Transfer::decode_log(log) {
                    self.holders.insert(transfer.to);
                }
            }
            self.mined.push(Mined {
                number,
                block: B256::from(block.id),
                time: block.time_ms.unsigned_abs() / 1_000,
                id: B256::from(held.id.0),
                owner: held.owner.evm(),
                call: held.call.map(|(contract, data)| (contract.evm(), data)),
                result: held.result,
                logs: held.logs,
                fee_sun: held.fee_sun,
            });
        }
    }

    /// Replaces the `depth` newest blocks by as many others of the same times. What was in them waits again in its order, is in the
    /// newest of the new blocks in the other order, or is forgotten.
    ///
    /// # Errors
    /// [`TronError::Solidified`] when a solidified block is among them.
    pub fn reorganise(&mut self, depth: u64, dropped: Dropped) -> Result<Reorganised, TronError> {
        let (head, solidified) = (self.head().number, self.solidified().number);
        if depth > head - solidified {
            return Err(TronError::Solidified { depth, head, solidified });
        }
        let common = head - depth;
        let times: Vec<_> =
            (common + 1..=head).filter_map(|number| self.node.block(number)).map(|block| block.time_ms).collect();
        let left: Vec<_> = self.mined.iter().filter(|mined| mined.number > common).map(|mined| mined.id).collect();
        self.fork = Some(self.node.clone());
        self.made = None;
        // The clock is what the head has, so that what comes again is judged by the time of its block.
        if let Some(block) = self.node.block(common) {
            self.node.set_time(block.time_ms);
        }
        if !self.node.fork(depth, dropped == Dropped::Forgotten) {
            return Err(TronError::Solidified { depth, head, solidified });
        }
        self.mined.retain(|mined| mined.number <= common);
        self.past.retain(|past| past.head().number < common);
        for (index, time_ms) in times.iter().enumerate() {
            let mut chosen = Vec::new();
            if index + 1 == times.len() && dropped == Dropped::Reordered {
                chosen.extend(self.node.pending().into_iter().rev().map(|one| one.id));
            }
            self.extend(*time_ms, &chosen)?;
        }
        Ok(Reorganised { common, transactions: left })
    }

    /// The transactions that wait for a block, in the order in which they came.
    pub fn pending(&self) -> Vec<trondev::Transaction> {
        self.node.pending()
    }

    /// Lets all nodes forget a transaction that waits; whether it did.
    pub fn forget(&mut self, id: B256) -> bool {
        self.node.forget(TxId(id.0))
    }

    /// Keeps a transaction that waits out of every block before `block`; whether it waits. One whose expiration passes meanwhile
    /// never comes.
    pub fn delay(&mut self, id: B256, block: u64) -> bool {
        let waits = self.node.pending().iter().any(|one| one.id.0 == id.0);
        if waits {
            self.not_before.insert(TxId(id.0), block);
        }
        waits
    }

    /// Sun of an account in the newest block.
    pub fn sun(&self, account: Address) -> u64 {
        self.node.balance(trondev::Address::from_evm(account))
    }

    /// What an account has of the token in the newest block, smallest unit.
    pub fn token_balance(&self, account: Address) -> U256 {
        let slot = keccak256((account, self.contracts.balances).abi_encode());
        self.node.stored(trondev::Address::from_evm(self.contracts.token), slot.into())
    }

    /// Everyone who has some of the token in the newest block, and how much. Together it is the supply, or the token was made to
    /// lie.
    pub fn token_balances(&self) -> BTreeMap<Address, U256> {
        let balances = self.holders.iter().map(|holder| (*holder, self.token_balance(*holder)));
        balances.filter(|(_, balance)| !balance.is_zero()).collect()
    }
}
