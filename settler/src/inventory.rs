//! What the settler has promised, so that it does not promise the same tokens twice.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use events::{Amount, AssetId, time::Timestamp};
use ruint::aliases::U256;

/// Most promises open at a time; bounds memory.
const PROMISES_MAX: usize = 65_536;

/// The promises that are open: quotes until they lapse, awards until they are delivered or can no longer be.
#[derive(Debug, Default)]
pub struct Inventory {
    limits: HashMap<AssetId, U256>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    promises: HashMap<String, Promise>,
    /// Promises that lapse by themselves, earliest first.
    lapsing: BTreeSet<(Timestamp, String)>,
    /// Sum of the promises of each asset.
    totals: HashMap<AssetId, U256>,
    /// Counts the promises that ended because tokens may have left the account.
    settled: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Promise {
    asset: AssetId,
    amount: U256,
    lapses: Option<Timestamp>,
}

/// A point in time in the life of an inventory; see [`Inventory::mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

/// What the settler holds of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Funds {
    /// Taken before the balance was read.
    pub mark: Mark,
    /// The balance, smallest unit.
    pub balance: U256,
}

/// Why nothing was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The tokens are not there, are promised already, or the limit does not allow it.
    #[error("not enough is free")]
    Short,
    /// A delivery was settled since the mark, so the balance may be from before it: read it again.
    #[error("the balance may be outdated")]
    Outdated,
}

impl Inventory {
    /// An inventory in which promises of an asset stay within its limit, smallest units; assets without one are bounded
    /// by the balance alone.
    pub fn new(limits: HashMap<AssetId, U256>) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// To be taken *before* reading the balance that [`Inventory::promise`] is given.
    pub fn mark(&self) -> Mark {
        Mark(self.state().settled)
    }

    /// Promises `amount` of `asset` under `key` until `lapses`, if `funds` cover it beside all other promises. A promise
    /// that stands under the key already is replaced; one that was awarded stays as it is.
    ///
    /// # Errors
    /// See [`Refusal`]; then nothing has changed.
    pub fn promise(
        &self,
        key: &str,
        asset: &AssetId,
        amount: Amount,
        funds: Funds,
        lapses: Timestamp,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let mut state = self.state();
        state.lapse(now);
        if state.settled != funds.mark.0 {
            return Err(Refusal::Outdated);
        }
        let standing = state.promises.get(key);
        if standing.is_some_and(|promise| promise.lapses.is_none()) {
            return Ok(());
        }
        let replaced = standing.filter(|promise| promise.asset == *asset).map_or(U256::ZERO, |promise| promise.amount);
        let others = state.totals.get(asset).copied().unwrap_or_default() - replaced;
        let limit = self.limits.get(asset).copied().unwrap_or(U256::MAX).min(funds.balance);
        let fits = others.checked_add(amount.get()).is_some_and(|total| total <= limit);
        if !fits || (standing.is_none() && state.promises.len() >= PROMISES_MAX) {
            return Err(Refusal::Short);
        }
        state.put(key, Promise { asset: asset.clone(), amount: amount.get(), lapses: Some(lapses) });
        Ok(())
    }

    /// Holds the tokens of an award until [`Inventory::settle`], whether or not they were promised before: what was
    /// awarded is owed.
    pub fn award(&self, key: &str, asset: &AssetId, amount: Amount) {
        self.state().put(key, Promise { asset: asset.clone(), amount: amount.get(), lapses: None });
    }

    /// Ends the promise under `key`: the tokens are delivered, or never will be.
    pub fn settle(&self, key: &str) {
        let mut state = self.state();
        if state.remove(key) {
            state.settled += 1;
        }
    }

    /// Sum of the open promises of `asset` at `now`.
    pub fn promised(&self, asset: &AssetId, now: Timestamp) -> U256 {
        let mut state = self.state();
        state.lapse(now);
        state.totals.get(asset).copied().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No method leaves the state half changed where it could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, key: &str, promise: Promise) {
        self.remove(key);
        let total = self.totals.entry(promise.asset.clone()).or_default();
        *total = total.saturating_add(promise.amount);
        if let Some(lapses) = promise.lapses {
            self.lapsing.insert((lapses, key.to_owned()));
        }
        self.promises.insert(key.to_owned(), promise);
    }

    fn remove(&mut self, key: &str) -> bool {
        let Some(promise) = self.promises.remove(key) else { return false };
        if let Some(lapses) = promise.lapses {
            self.lapsing.remove(&(lapses, key.to_owned()));
        }
        if let Some(total) = self.totals.get_mut(&promise.asset) {
            *total = total.saturating_sub(promise.amount);
            if total.is_zero() {
                self.totals.remove(&promise.asset);
            }
        }
        true
    }

    fn lapse(&mut self, now: Timestamp) {
        while let Some((lapses, key)) = self.lapsing.first().cloned() {
            if lapses >= now {
                break;
            }
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use events::time::from_unix_seconds;
    use proptest::prelude::*;

    use super::*;

    fn asset() -> AssetId {
        "eip155:10/slip44:60".parse().unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        from_unix_seconds(seconds).unwrap()
    }

    fn units(amount: u64) -> Amount {
        Amount::new(U256::from(amount)).unwrap()
    }

    fn promise(inventory: &Inventory, key: &str, amount: u64, balance: u64, now: u64) -> Result<(), Refusal> {
        let funds = Funds { mark: inventory.mark(), balance: U256::from(balance) };
        inventory.promise(key, &asset(), units(amount), funds, at(now + 10), at(now))
    }

    #[test]
    fn the_same_tokens_are_not_promised_twice_until_the_quote_lapses() {
        let inventory = Inventory::default();
        assert_eq!(promise(&inventory, "a", 60, 100, 0), Ok(()));
        assert_eq!(promise(&inventory, "b", 60, 100, 5), Err(Refusal::Short));
        assert_eq!(promise(&inventory, "b", 40, 100, 5), Ok(()));
        assert_eq!(promise(&inventory, "c", 60, 100, 11), Ok(()));
    }

    #[test]
    fn a_limit_binds_below_the_balance() {
        let inventory = Inventory::new(HashMap::from([(asset(), U256::from(50))]));
        assert_eq!(promise(&inventory, "a", 51, 100, 0), Err(Refusal::Short));
        assert_eq!(promise(&inventory, "a", 50, 100, 0), Ok(()));
    }

    #[test]
    fn the_same_auction_replaces_its_promise() {
        let inventory = Inventory::default();
        assert_eq!(promise(&inventory, "a", 60, 100, 0), Ok(()));
        assert_eq!(promise(&inventory, "a", 100, 100, 0), Ok(()));
        assert_eq!(promise(&inventory, "a", 101, 100, 0), Err(Refusal::Short));
        assert_eq!(inventory.promised(&asset(), at(0)), U256::from(100));
    }

    #[test]
    fn an_award_holds_until_it_is_settled_and_then_the_balance_is_read_again() {
        let inventory = Inventory::default();
        assert_eq!(promise(&inventory, "a", 60, 100, 0), Ok(()));
        inventory.award("a", &asset(), units(60));
        assert_eq!(inventory.promised(&asset(), at(1_000)), U256::from(60));
        // This balance is read before the delivery leaves the account.
        let before = Funds { mark: inventory.mark(), balance: U256::from(100) };
        inventory.settle("a");
        let outdated = inventory.promise("b", &asset(), units(60), before, at(9), at(0));
        assert_eq!(outdated, Err(Refusal::Outdated));
        assert_eq!(promise(&inventory, "b", 60, 40, 0), Err(Refusal::Short));
    }

    proptest! {
        #[test]
        fn open_promises_never_exceed_the_balance(
            steps in prop::collection::vec((0..8usize, 1..60u64, 0..3u64), 1..60),
        ) {
            let inventory = Inventory::default();
            let mut now = 0;
            for (key, amount, passed) in steps {
                now += passed;
                let _ = promise(&inventory, &key.to_string(), amount, 100, now);
                prop_assert!(inventory.promised(&asset(), at(now)) <= U256::from(100));
            }
        }
    }
}
