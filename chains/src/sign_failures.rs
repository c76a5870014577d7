//! Sign failures: which keys gave no signature a moment ago, so that others are asked first (fail-over).
//!
//! It is kept in memory alone and forgotten soon. Who sends nothing for a payment yet is chosen by it, and nothing else: what has a
//! nonce or a transaction stays with its account.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use events::time::Timestamp;

/// How long a key that did not sign comes after the others. Then one payment finds out again.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// When which account's key last gave no signature. There are no more of them than there are keys.
#[derive(Debug)]
pub struct SignFailures<A>(Mutex<HashMap<A, Timestamp>>);

impl<A> Default for SignFailures<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A: Eq + Hash> SignFailures<A> {
    /// Notes whether the key of `account` gave a signature at `now`.
    pub fn note(&self, account: A, has_signed: bool, now: Timestamp) {
        let mut failed = self.failed();
        match has_signed {
            true => failed.remove(&account),
            false => failed.insert(account, now),
        };
    }

    /// Notes that the key of `account` is about to be asked. Where its last failure is long ago, whoever looks meanwhile still
    /// finds it among the last, so that one payment alone waits for what may be away yet.
    pub fn try_again(&self, account: &A, now: Timestamp) {
        if let Some(at) = self.failed().get_mut(account) {
            *at = now;
        }
    }

    /// The same keys in the same order, but those last that gave no signature lately.
    pub fn failed_last<'a, K>(&self, keys: Vec<&'a K>, account: impl Fn(&K) -> A, now: Timestamp) -> Vec<&'a K> {
        let failed = self.failed();
        // A clock that was put back makes nobody wait.
        let is_recent = |at: &Timestamp| (now - *at).to_std().is_ok_and(|age| age < REMEMBERED_FOR);
        let (last, mut ordered): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|key| failed.get(&account(key)).is_some_and(is_recent));
        ordered.extend(last);
        ordered
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<A, Timestamp>> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_did_not_sign_is_last_until_it_signs_or_a_minute_is_over() {
        let (failures, keys) = (SignFailures::default(), ["a", "b", "c"]);
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let order =
            |now| failures.failed_last(keys.iter().collect(), |key| *key, now).into_iter().copied().collect::<String>();
        assert_eq!(order(start), "abc");
        failures.note("a", false, start);
        assert_eq!((order(start), order(at(59)), order(at(60))), ("bca".into(), "bca".into(), "abc".into()));
        failures.note("b", false, at(30));
        assert_eq!((order(at(30)), order(at(60))), ("cab".into(), "acb".into()));
        failures.note("b", true, at(31));
        assert_eq!(order(at(31)), "bca");
        failures.note("c", false, at(31));
        failures.note("b", false, at(31));
        assert_eq!(order(at(31)), "abc", "where none signs, each payment has its own first");
        assert_eq!(order(start - Duration::from_secs(1)), "abc", "the clock was put back");
    }

    #[test]
    fn one_alone_tries_a_key_again() {
        let failures = SignFailures::default();
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let order =
            |now| failures.failed_last(vec![&"a", &"b"], |key| *key, now).into_iter().copied().collect::<String>();
        failures.note("a", false, start);
        assert_eq!(order(at(60)), "ab");
        failures.try_again(&"a", at(60));
        failures.try_again(&"b", at(60));
        assert_eq!(order(at(61)), "ba", "while it is tried; one that signs is not noted by being asked");
        failures.note("a", true, at(62));
        assert_eq!(order(at(62)), "ab");
    }
}
