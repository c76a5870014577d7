//! Development controls that no network offers: faucet, clock, dropped transactions, reorganisations, code changes.

use std::sync::Arc;

use revm::{
    bytecode::Bytecode,
    primitives::{Bytes, keccak256},
};

use super::{Chain, ChainView, SUN_MAX, state::State};
use crate::{Address, Refusal, proto::SmartContract, transaction::TxId};

/// How many blocks one call makes.
const BLOCKS_AT_ONCE_MAX: u64 = 1_000;
/// The year 2200. What lies beyond is a mistake in the unit.
const TIME_MS_MAX: i64 = 7_258_118_400_000;

/// Why a development control refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DevelopmentError {
    #[error("all accounts together may not have more than {SUN_MAX} sun")]
    TooMuch,
    #[error("at most {BLOCKS_AT_ONCE_MAX} blocks at once")]
    TooManyBlocks,
    #[error("the time must lie between the head's, {0}, and {TIME_MS_MAX}, both in milliseconds since 1970")]
    Time(i64),
    #[error("only {0} blocks are not yet solidified")]
    Solidified(u64),
    #[error("the code cannot be taken: {0}")]
    Code(String),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl Chain {
    /// Gives `sun` to an account, in every block that is not yet solidified, too.
    pub fn fund(&mut self, address: Address, sun: u64) -> Result<(), DevelopmentError> {
        let issued = self.issued.checked_add(sun).filter(|sum| *sum <= SUN_MAX).ok_or(DevelopmentError::TooMuch)?;
        self.issued = issued;
        let now = self.now();
        // What was ever given fits, so what one account has fits.
        self.everywhere(|state| state.entry(address, now).balance += sun);
        Ok(())
    }

    /// Puts code at an address, in every block that is not yet solidified, too.
    pub fn put_code(&mut self, address: Address, code: &[u8]) -> Result<(), DevelopmentError> {
        let code = Bytecode::new_raw_checked(Bytes::copy_from_slice(code))
            .map_err(|error| DevelopmentError::Code(error.to_string()))?;
        let bytes = code.original_bytes();
        if bytes.is_empty() {
            return Err(DevelopmentError::Code("there is none".to_owned()));
        }
        let hash = keccak256(&bytes);
        let contract = Arc::new(SmartContract {
            contract_address: address.to_bytes().to_vec(),
            origin_address: address.to_bytes().to_vec(),
            consume_user_resource_percent: 100,
            code_hash: hash.to_vec(),
            ..Default::default()
        });
        let now = self.now();
        self.everywhere(|state| {
            let account = state.entry(address, now);
            account.code = code.clone();
            account.code_hash = hash;
            account.contract = Some(contract.clone());
        });
        Ok(())
    }

    fn everywhere(&mut self, change: impl Fn(&mut State)) {
        for state in &mut self.states {
            change(Arc::make_mut(state));
        }
        change(&mut self.pending_state);
    }

    /// Makes blocks, `apart_ms` milliseconds of the chain's clock apart.
    pub fn mine_many(&mut self, blocks: u64, apart_ms: i64) -> Result<(), DevelopmentError> {
        if blocks > BLOCKS_AT_ONCE_MAX {
            return Err(DevelopmentError::TooManyBlocks);
        }
        for _ in 0..blocks {
            if apart_ms > 0 {
                self.set_time(self.now().saturating_add(apart_ms))?;
            }
            self.mine()?;
        }
        Ok(())
    }

    /// Sets the clock, to milliseconds since 1970.
    pub fn set_time(&mut self, time: i64) -> Result<(), DevelopmentError> {
        let head = self.head().time();
        if !(head..=TIME_MS_MAX).contains(&time) {
            return Err(DevelopmentError::Time(head));
        }
        self.clock.set(time);
        Ok(())
    }

    /// Takes all sun from an account, in every block that is not yet solidified, too; what it had in the newest.
    pub fn drain(&mut self, address: Address) -> u64 {
        let had = self.state(ChainView::Head).get(address).map_or(0, |account| account.balance);
        let now = self.now();
        self.everywhere(|state| {
            if state.get(address).is_some() {
                state.entry(address, now).balance = 0;
            }
        });
        had
    }

    /// Sets the clock whatever the head's time is. A block comes after the head all the same.
    pub fn show_time(&mut self, time: i64) {
        self.clock.set(time);
    }

    /// Sets the price of energy from the next block on, in sun.
    pub fn set_energy_price(&mut self, sun: u64) {
        self.options.energy_price_sun = sun;
    }

    /// Sets how many blocks the solidified one is behind the head from the next block on. What is solidified stays so.
    pub fn set_solidified_lag(&mut self, blocks: u64) {
        self.options.solidified_lag = blocks;
    }

    /// Forgets one of those that wait; whether it was there.
    pub fn drop_one(&mut self, id: TxId) -> bool {
        let before = self.pending.len();
        let waiting: Vec<_> = self.pending.iter().filter(|one| one.id != id).cloned().collect();
        if waiting.len() == before {
            return false;
        }
        self.seen.remove(&id);
        self.wait_again(waiting);
        true
    }

    /// Forgets what waits, as a network may, and says what it was.
    pub fn drop_pending(&mut self) -> Vec<TxId> {
        let dropped: Vec<TxId> = self.pending.iter().map(|transaction| transaction.id).collect();
        for id in &dropped {
            self.seen.remove(id);
        }
        self.wait_again(Vec::new());
        dropped
    }

    /// Lets constant calls about the head see what waits, or only what is in blocks. Tron's nodes, which run what waits on the
    /// head's state, show it.
    pub fn show_pending(&mut self, shown: bool) {
        self.shows_pending = shown;
        let waiting = std::mem::take(&mut self.pending);
        self.wait_again(waiting);
    }

    /// Takes the last blocks away. Their transactions wait again, unless `drop_transactions`.
    pub fn fork(&mut self, blocks: u64, drop_transactions: bool) -> Result<(), DevelopmentError> {
        // Block 1 stays: clients name the head in their transactions, and read block 0 as one without a number.
        let free = self.head().number() - self.solidified.max(1);
        if blocks > free {
            return Err(DevelopmentError::Solidified(free));
        }
        let mut back = Vec::new();
        for _ in 0..blocks {
            let Some(block) = self.blocks.pop_back() else { break };
            self.states.pop_back();
            self.kept_bytes -= block.bytes;
            for included in block.transactions.iter().rev() {
                self.index.remove(&included.transaction.id);
                back.push(included.transaction.clone());
            }
        }
        back.reverse();
        if drop_transactions {
            for transaction in back.drain(..) {
                self.seen.remove(&transaction.id);
            }
        }
        back.append(&mut self.pending);
        self.forks += 1;
        self.wait_again(back);
        Ok(())
    }

    /// The numbers of the head and of the solidified block, and how many transactions wait.
    pub fn status(&self) -> (u64, u64, usize) {
        (self.head().number(), self.newest(ChainView::Solidified).number(), self.pending.len())
    }
}
