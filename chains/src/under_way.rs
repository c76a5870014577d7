//! Deposits under way: how many of one account's are on their way to a block at a time. An account can take its money away meanwhile, at
//! the cost of one transaction, and all of them fail (ADR 88).
//!
//! It is counted in memory, at each gateway for itself: to journal it would cost two stored messages for every honest payment.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long a deposit is taken to be under way, unless its end is seen.
const UNDER_WAY_FOR: Duration = Duration::from_secs(3_600);
/// How often those whose end was never seen are dropped.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Whether a deposit is one of those that are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// From now on.
    New,
    /// It was before.
    Before,
    /// There is no room for it.
    No,
}

/// Deposits `D` of accounts `A`, as this process has seen them.
#[derive(Debug)]
pub struct UnderWay<A, D>(Mutex<Seen<A, D>>);

#[derive(Debug)]
struct Seen<A, D> {
    /// Since when each is under way.
    accounts: HashMap<A, HashMap<D, Instant>>,
    /// When what is too old was last dropped.
    swept: Option<Instant>,
}

impl<A, D> Default for UnderWay<A, D> {
    fn default() -> Self {
        Self(Mutex::new(Seen { accounts: HashMap::new(), swept: None }))
    }
}

impl<A: Clone + Eq + Hash, D: Clone + Eq + Hash> UnderWay<A, D> {
    fn lock(&self) -> MutexGuard<'_, Seen<A, D>> {
        // Nothing panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is one of those that are under way.
    pub fn has(&self, account: &A, deposit: &D) -> bool {
        self.lock().accounts.get(account).is_some_and(|own| own.contains_key(deposit))
    }

    /// Whether `deposit` is one of the `most` deposits of this account that are under way, and from now on it is.
    pub fn enter(&self, account: &A, deposit: &D, most: usize, now: Instant) -> Entry {
        let mut seen = self.lock();
        seen.drop_old(now);
        let own = seen.accounts.entry(account.clone()).or_default();
        if own.contains_key(deposit) {
            return Entry::Before;
        }
        if own.len() >= most {
            return Entry::No;
        }
        own.insert(deposit.clone(), now);
        Entry::New
    }

    /// Its end was seen, or nothing came of it.
    pub fn leave(&self, account: &A, deposit: &D) {
        let mut seen = self.lock();
        let Some(own) = seen.accounts.get_mut(account) else { return };
        own.remove(deposit);
        if own.is_empty() {
            seen.accounts.remove(account);
        }
    }
}

impl<A: Eq + Hash, D> Seen<A, D> {
    fn drop_old(&mut self, now: Instant) {
        if self.swept.is_some_and(|at| now - at < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.accounts.retain(|_, own| {
            own.retain(|_, since| now - *since < UNDER_WAY_FOR);
            !own.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_deposits_of_an_account_are_under_way_until_their_end_is_seen_or_long_past() {
        let (deposits, start) = (UnderWay::<&str, u32>::default(), Instant::now());
        let enters = |of: &'static str, n, at| deposits.enter(&of, &n, 2, at) != Entry::No;
        assert!(enters("a", 1, start) && enters("a", 2, start));
        assert!(!enters("a", 3, start) && enters("a", 2, start) && enters("b", 3, start));
        deposits.leave(&"a", &1);
        assert_eq!(deposits.enter(&"a", &3, 2, start), Entry::New);
        assert_eq!(deposits.enter(&"a", &3, 2, start), Entry::Before);
        assert!(!enters("a", 4, start));
        assert!(deposits.has(&"a", &2) && !deposits.has(&"a", &4));
        // All that was never seen to end is forgotten, whoever comes next.
        assert!(enters("c", 6, start + UNDER_WAY_FOR));
        assert_eq!(deposits.lock().accounts.len(), 1);
        deposits.leave(&"c", &6);
        assert!(deposits.lock().accounts.is_empty());
    }
}
