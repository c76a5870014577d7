//! Gas budgets: limits on the gas that the code of contract accounts costs the gateway.
//!
//! A payer whose account is a contract has its code run in the gateway's deposit, at the gateway's expense. Each account,
//! each code and each chain is an aggregate of its own that knows what is at stake now and what was lost lately. A deposit
//! is *charged* to all of its budgets before a nonce is taken for it, with all that it may cost, and *closed* when its end
//! is final, with what it did cost in vain. What was never closed, because a process died in between, counts as lost until
//! its time is over. So any number of gateways together lose no more than the budgets say, and a restart forgets nothing.
//!
//! [`Budgets`] has two implementations with the same rules, [`memory::MemoryBudgets`] and that of the crate `journal-jetstream`.

pub mod memory;
pub mod state;

use async_trait::async_trait;
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use events::{ChainId, Hash32, time::Timestamp};

use crate::ledger::Purpose;

/// Whose budget it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BudgetKey(String);

impl BudgetKey {
    /// An account, as `0x…`.
    pub fn account(chain_id: &ChainId, address: &str) -> Self {
        Self::new(chain_id, "account", address)
    }

    /// All accounts with the code of this hash.
    pub fn code(chain_id: &ChainId, code_hash: Hash32) -> Self {
        Self::new(chain_id, "code", &code_hash.to_string())
    }

    /// All accounts that this factory, `0x…`, is to deploy.
    pub fn factory(chain_id: &ChainId, address: &str) -> Self {
        Self::new(chain_id, "factory", address)
    }

    /// All contract accounts of the chain.
    pub fn chain(chain_id: &ChainId) -> Self {
        Self::new(chain_id, "chain", "all")
    }

    fn new(chain_id: &ChainId, kind: &str, id: &str) -> Self {
        // EVM addresses and hashes mean the same in any case; what is not part of one is not part of a subject either.
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
        Self(format!("{}.{kind}.{}", chain_id.token(), id.to_ascii_lowercase()))
    }

    /// Its text, three tokens with dots between them.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A budget: so much gas within so much time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Whose.
    pub key: BudgetKey,
    /// The most that may be lost and at stake within `window`.
    pub gas_max: u64,
    /// Time over which losses count.
    pub window: TimeDelta,
}

/// Whether a budget has room for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It has.
    Now,
    /// It will, unless what is at stake now is lost.
    Soon,
    /// Not before this time: too much was lost lately.
    At(Timestamp),
}

/// What a budget says of one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetState {
    /// Whether something is at stake for it.
    pub is_at_stake: bool,
    /// Whether its loss is counted: nothing is to be closed for it any more.
    pub is_counted: bool,
    /// Whether so much more may be lost, whatever is at stake now.
    pub room: Room,
}

/// Why nothing is known of a budget. All are safe to retry.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot be reached, or did not answer in time.
    #[error("gas budgets are unavailable: {0}")]
    Unavailable(String),
    /// Too many others wrote at the same moment.
    #[error("gas budget is contended")]
    Contended,
    /// A stored entry cannot be read.
    #[error("a gas budget is unreadable: {0}")]
    Damaged(String),
}

/// Most charges that one budget may have at stake; bounds the size of an entry.
pub const OPEN_MAX: usize = 512;

/// Where budgets are kept, one at a time. [`charge`], [`close`] and [`room`] do it for all that something counts against.
#[async_trait]
pub trait Budgets: Send + Sync {
    /// Puts `gas` at stake for `purpose`, or says why there is no room. Of the same purpose it is put at stake once,
    /// and not again once its loss is counted. `others` are the budgets that are charged with it.
    ///
    /// # Errors
    /// See [`Error`].
    async fn charge_one(
        &self,
        budget: &Budget,
        purpose: &Purpose,
        gas: u64,
        others: &[BudgetKey],
        now: Timestamp,
    ) -> Result<Room, Error>;

    /// Takes what is at stake for `purpose` off the budget, and counts `lost` instead. Returns whether something was at
    /// stake; else it has no effect. It may say that nothing was where the store's first answer was lost.
    ///
    /// # Errors
    /// See [`Error`].
    async fn close_one(&self, key: &BudgetKey, purpose: &Purpose, lost: u64, now: Timestamp) -> Result<bool, Error>;

    /// The other budgets that `purpose` is charged to; `None` when nothing is at stake for it.
    ///
    /// # Errors
    /// See [`Error`].
    async fn charged(&self, key: &BudgetKey, purpose: &Purpose) -> Result<Option<Vec<BudgetKey>>, Error>;

    /// Whether so much more may be lost, whatever is at stake now.
    ///
    /// # Errors
    /// See [`Error`].
    async fn room_of(&self, budget: &Budget, gas: u64, now: Timestamp) -> Result<Room, Error>;

    /// The same, and what became of `purpose`, by one look.
    ///
    /// # Errors
    /// See [`Error`].
    async fn state_of(
        &self,
        budget: &Budget,
        purpose: &Purpose,
        gas: u64,
        now: Timestamp,
    ) -> Result<BudgetState, Error>;
}

/// Puts `gas` at stake for `purpose` in all of `budgets`, of which the first is the one it is closed by; in none when one of
/// them has no room.
///
/// # Errors
/// See [`Error`].
pub async fn charge(
    budgets: &dyn Budgets,
    of: &[Budget],
    purpose: &Purpose,
    gas: u64,
    now: Timestamp,
) -> Result<Room, Error> {
    let others: Vec<_> = of.iter().skip(1).map(|budget| budget.key.clone()).collect();
    for (index, budget) in of.iter().enumerate() {
        let others = if index == 0 { others.as_slice() } else { &[] };
        let room = budgets.charge_one(budget, purpose, gas, others, now).await?;
        if room != Room::Now {
            // The first is let go last: it says which others there are.
            for charged in of.iter().take(index).rev() {
                budgets.close_one(&charged.key, purpose, 0, now).await?;
            }
            return Ok(room);
        }
    }
    Ok(Room::Now)
}

/// Closes the charges of `purpose`: `key`, and all that were charged with it. Returns whether it was charged to
/// anything.
///
/// # Errors
/// See [`Error`]; to be repeated then.
pub async fn close(
    budgets: &dyn Budgets,
    key: &BudgetKey,
    purpose: &Purpose,
    lost: u64,
    now: Timestamp,
) -> Result<bool, Error> {
    let Some(others) = budgets.charged(key, purpose).await? else { return Ok(false) };
    for other in &others {
        budgets.close_one(other, purpose, lost, now).await?;
    }
    budgets.close_one(key, purpose, lost, now).await
}

/// The latest time at which one of the budgets has room again for `gas`; `None` when all have it now.
///
/// # Errors
/// See [`Error`].
pub async fn room(budgets: &dyn Budgets, of: &[Budget], gas: u64, now: Timestamp) -> Result<Option<Timestamp>, Error> {
    let mut latest = None;
    for budget in of {
        if let Room::At(at) = budgets.room_of(budget, gas, now).await? {
            latest = latest.max(Some(at));
        }
    }
    Ok(latest)
}
