//! Inventory: which of the settler's tokens are held for quotes and awards, so that the same tokens are not promised
//! twice.
//!
//! Only signed payments hold tokens, and each allocation has an end: the end of the quote, of the deposit's window or
//! of the delivery's. An unsigned request is compared with the free tokens and holds nothing.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use ruint::aliases::U256;

use events::{Amount, AssetId, time::Timestamp};

/// Most allocations at the same time; bounds memory.
const ALLOCATIONS_MAX: usize = 65_536;

/// The allocations: of quotes to signed payments until they lapse, of awards until they are delivered, over, or
/// impossible to deliver.
#[derive(Debug, Default)]
pub struct Inventory {
    max: HashMap<AssetId, U256>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    allocations: HashMap<String, Allocation>,
    /// The allocations by their ends, earliest first.
    ends: BTreeSet<(Timestamp, String)>,
    /// Sum of the allocations of each asset.
    totals: HashMap<AssetId, U256>,
    /// Counts the allocations whose tokens may have left the account.
    spent: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Allocation {
    asset: AssetId,
    amount: U256,
    until: Timestamp,
    is_awarded: bool,
}

/// Version of the balance; it changes whenever tokens may have left the account. See [`Inventory::version`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BalanceVersion(u64);

/// What the settler's account holds of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Funds {
    /// The version, taken before the balance was read.
    pub version: BalanceVersion,
    /// The balance, smallest unit.
    pub balance: U256,
}

/// Tokens that a quote or an award needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need<'a> {
    /// Key of the allocation: the auction.
    pub key: &'a str,
    /// The asset.
    pub asset: &'a AssetId,
    /// How much of it, smallest unit.
    pub amount: Amount,
}

/// Why nothing is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Too few tokens are free, or the configured limit does not allow it.
    #[error("not enough is free")]
    Short,
    /// Tokens may have left the account since the balance was read: read it again.
    #[error("the balance may be outdated")]
    Outdated,
}

impl Inventory {
    /// An inventory in which allocations of an asset stay within its bound in `max`, smallest units; assets without one
    /// are bounded by the balance alone.
    pub fn new(max: HashMap<AssetId, U256>) -> Self {
        Self { max, state: Mutex::default() }
    }

    /// The current version, to be taken *before* the balance that goes into [`Funds`] is read.
    pub fn version(&self) -> BalanceVersion {
        BalanceVersion(self.state().spent)
    }

    /// Whether `funds` cover `need` in addition to all allocations. Allocates nothing.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn covers(&self, need: Need<'_>, funds: Funds, now: Timestamp) -> Result<(), Refusal> {
        let mut state = self.state();
        state.lapse(now);
        state.covers(need, funds, self.limit(need.asset, funds))
    }

    /// Allocates `need` to a quote until `until`, if `funds` cover it. An earlier allocation under the key is replaced;
    /// one that was awarded stays as it is.
    ///
    /// # Errors
    /// See [`Refusal`]; then nothing has changed.
    pub fn quote(&self, need: Need<'_>, funds: Funds, until: Timestamp, now: Timestamp) -> Result<(), Refusal> {
        let mut state = self.state();
        state.lapse(now);
        if state.allocations.get(need.key).is_some_and(|allocation| allocation.is_awarded) {
            return Ok(());
        }
        state.covers(need, funds, self.limit(need.asset, funds))?;
        state.allocate(need, until, false);
        Ok(())
    }

    /// Allocates `need` to an award until `until`, if it was allocated to its quote or `funds` cover it.
    ///
    /// # Errors
    /// See [`Refusal`]; then nothing has changed.
    pub fn award(&self, need: Need<'_>, funds: Option<Funds>, until: Timestamp, now: Timestamp) -> Result<(), Refusal> {
        let mut state = self.state();
        state.lapse(now);
        let standing = state.allocations.get(need.key);
        if !standing.is_some_and(|allocation| allocation.asset == *need.asset && allocation.amount >= need.amount.get())
        {
            let funds = funds.ok_or(Refusal::Outdated)?;
            state.covers(need, funds, self.limit(need.asset, funds))?;
        }
        state.allocate(need, until, true);
        Ok(())
    }

    /// Allocates the tokens of an award until `until`, covered or not: the settler owes a delivery whose payment is in
    /// escrow.
    pub fn owe(&self, need: Need<'_>, until: Timestamp) {
        self.state().allocate(need, until, true);
    }

    /// Ends the allocation under `key`: the tokens have left the account, or may have.
    pub fn spend(&self, key: &str) {
        let mut state = self.state();
        state.remove(key);
        // Tokens may have left the account whether or not they were held to the end.
        state.spent += 1;
    }

    /// Ends the allocation under `key`; nothing has left the account.
    pub fn release(&self, key: &str) {
        self.state().remove(key);
    }

    /// Ends the allocation of the quote under `key`, unless it was awarded; nothing has left the account.
    pub fn lose(&self, key: &str) {
        let mut state = self.state();
        if state.allocations.get(key).is_some_and(|allocation| !allocation.is_awarded) {
            state.remove(key);
        }
    }

    /// What `funds` leave to be promised of `asset` at `now`, smallest unit.
    pub fn free(&self, asset: &AssetId, funds: Funds, now: Timestamp) -> U256 {
        let mut state = self.state();
        state.lapse(now);
        let held = state.totals.get(asset).copied().unwrap_or_default();
        drop(state);
        self.limit(asset, funds).saturating_sub(held)
    }

    fn limit(&self, asset: &AssetId, funds: Funds) -> U256 {
        self.max.get(asset).copied().unwrap_or(U256::MAX).min(funds.balance)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No method leaves the state half changed where it could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn covers(&self, need: Need<'_>, funds: Funds, limit: U256) -> Result<(), Refusal> {
        if self.spent != funds.version.0 {
            return Err(Refusal::Outdated);
        }
        let standing = self.allocations.get(need.key);
        let replaced = standing
            .filter(|allocation| allocation.asset == *need.asset)
            .map_or(U256::ZERO, |allocation| allocation.amount);
        let others = self.totals.get(need.asset).copied().unwrap_or_default().saturating_sub(replaced);
        let fits = others.checked_add(need.amount.get()).is_some_and(|total| total <= limit);
        if !fits || (standing.is_none() && self.allocations.len() >= ALLOCATIONS_MAX) {
            return Err(Refusal::Short);
        }
        Ok(())
    }

    fn allocate(&mut self, need: Need<'_>, until: Timestamp, is_awarded: bool) {
        self.remove(need.key);
        let allocation = Allocation { asset: need.asset.clone(), amount: need.amount.get(), until, is_awarded };
        let total = self.totals.entry(allocation.asset.clone()).or_default();
        *total = total.saturating_add(allocation.amount);
        self.ends.insert((until, need.key.to_owned()));
        self.allocations.insert(need.key.to_owned(), allocation);
    }

    fn remove(&mut self, key: &str) {
        let Some(allocation) = self.allocations.remove(key) else { return };
        self.ends.remove(&(allocation.until, key.to_owned()));
        if let Some(total) = self.totals.get_mut(&allocation.asset) {
            *total = total.saturating_sub(allocation.amount);
            if total.is_zero() {
                self.totals.remove(&allocation.asset);
            }
        }
    }

    fn lapse(&mut self, now: Timestamp) {
        while let Some((until, key)) = self.ends.first().cloned() {
            if until >= now {
                break;
            }
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use events::time::from_unix_seconds;

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

    fn funds(inventory: &Inventory, balance: u64) -> Funds {
        Funds { version: inventory.version(), balance: U256::from(balance) }
    }

    /// Sum of the allocations of `asset` at `now`.
    fn held(inventory: &Inventory, asset: &AssetId, now: Timestamp) -> U256 {
        let mut state = inventory.state();
        state.lapse(now);
        state.totals.get(asset).copied().unwrap_or_default()
    }

    fn quote(inventory: &Inventory, key: &str, amount: u64, balance: u64, now: u64) -> Result<(), Refusal> {
        let need = Need { key, asset: &asset(), amount: units(amount) };
        inventory.quote(need, funds(inventory, balance), at(now + 10), at(now))
    }

    #[test]
    fn the_same_tokens_are_not_promised_twice_until_the_quote_lapses() {
        let inventory = Inventory::default();
        assert_eq!(quote(&inventory, "a", 60, 100, 0), Ok(()));
        assert_eq!(quote(&inventory, "b", 60, 100, 5), Err(Refusal::Short));
        assert_eq!(quote(&inventory, "b", 40, 100, 5), Ok(()));
        assert_eq!(quote(&inventory, "c", 60, 100, 11), Ok(()));
    }

    #[test]
    fn what_nobody_signed_is_measured_and_holds_nothing() {
        let inventory = Inventory::default();
        let asset = asset();
        for key in ["a", "b", "c"] {
            let need = Need { key, asset: &asset, amount: units(100) };
            assert_eq!(inventory.covers(need, funds(&inventory, 100), at(0)), Ok(()));
        }
        assert_eq!(held(&inventory, &asset, at(0)), U256::ZERO);
        assert_eq!(quote(&inventory, "d", 100, 100, 0), Ok(()));
        let need = Need { key: "a", asset: &asset, amount: units(1) };
        assert_eq!(inventory.covers(need, funds(&inventory, 100), at(0)), Err(Refusal::Short));
        // It cannot be awarded any more either.
        assert_eq!(inventory.award(need, Some(funds(&inventory, 100)), at(99), at(0)), Err(Refusal::Short));
    }

    #[test]
    fn a_limit_binds_below_the_balance() {
        let inventory = Inventory::new(HashMap::from([(asset(), U256::from(50))]));
        assert_eq!(quote(&inventory, "a", 51, 100, 0), Err(Refusal::Short));
        assert_eq!(quote(&inventory, "a", 50, 100, 0), Ok(()));
    }

    #[test]
    fn the_same_auction_replaces_its_allocation() {
        let inventory = Inventory::default();
        assert_eq!(quote(&inventory, "a", 60, 100, 0), Ok(()));
        assert_eq!(quote(&inventory, "a", 100, 100, 0), Ok(()));
        assert_eq!(quote(&inventory, "a", 101, 100, 0), Err(Refusal::Short));
        assert_eq!(held(&inventory, &asset(), at(0)), U256::from(100));
    }

    #[test]
    fn an_award_holds_until_it_is_settled_and_then_the_balance_is_read_again() {
        let (inventory, asset) = (Inventory::default(), asset());
        assert_eq!(quote(&inventory, "a", 60, 100, 0), Ok(()));
        // The quote's allocation needs no balance, and the notice to losers does not end it.
        let need = Need { key: "a", asset: &asset, amount: units(60) };
        assert_eq!(inventory.award(need, None, at(1_000), at(0)), Ok(()));
        inventory.lose("a");
        assert_eq!(held(&inventory, &asset, at(1_000)), U256::from(60));
        // This balance is read before the delivery leaves the account.
        let before = funds(&inventory, 100);
        inventory.spend("a");
        let other = Need { key: "b", asset: &asset, amount: units(60) };
        assert_eq!(inventory.quote(other, before, at(9), at(0)), Err(Refusal::Outdated));
        assert_eq!(quote(&inventory, "b", 60, 40, 0), Err(Refusal::Short));
    }

    #[test]
    fn every_allocation_ends_by_itself_too() {
        let (inventory, asset) = (Inventory::default(), asset());
        let need = Need { key: "a", asset: &asset, amount: units(60) };
        assert_eq!(inventory.award(need, Some(funds(&inventory, 100)), at(30), at(0)), Ok(()));
        assert_eq!(quote(&inventory, "b", 60, 100, 30), Err(Refusal::Short));
        assert_eq!(quote(&inventory, "b", 60, 100, 31), Ok(()));
        // The settler owes a delivery whose payment is in escrow, whatever else it promised meanwhile.
        inventory.owe(need, at(90));
        assert_eq!(held(&inventory, &asset, at(31)), U256::from(120));
        inventory.lose("b");
        assert_eq!(held(&inventory, &asset, at(31)), U256::from(60));
    }

    proptest! {
        #[test]
        fn allocations_never_exceed_the_balance(
            steps in prop::collection::vec((0..8usize, 1..60u64, 0..3u64, 0..4u8), 1..60),
        ) {
            let (inventory, asset) = (Inventory::default(), asset());
            let mut now = 0;
            for (key, amount, passed, what) in steps {
                now += passed;
                let key = key.to_string();
                let need = Need { key: &key, asset: &asset, amount: units(amount) };
                match what {
                    0 => inventory.lose(&key),
                    1 => {
                        let _ = inventory.award(need, Some(funds(&inventory, 100)), at(now + 20), at(now));
                    }
                    _ => {
                        let _ = quote(&inventory, &key, amount, 100, now);
                    }
                }
                prop_assert!(held(&inventory, &asset, at(now)) <= U256::from(100));
            }
        }
    }
}
