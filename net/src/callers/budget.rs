//! Token buckets, one a key, in bounded memory.
//!
//! The buckets are `governor`'s (GCRA). Its own stores grow with the keys they have seen; this one keeps as many as it may
//! and forgets the one that was used longest ago. Who is forgotten begins with a full bucket, so a flood of addresses wins
//! nothing that its addresses did not have before, and takes nothing from anybody.

use std::{
    hash::Hash,
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, MonotonicClock},
    middleware::StateInformationMiddleware,
    nanos::Nanos,
    state::StateStore,
};
use lru::LruCache;

use super::limits::RateConfig;

/// The buckets of all callers.
pub(super) struct Budget<K: Hash + Eq + Clone, C: Clock = MonotonicClock> {
    limiter: RateLimiter<K, Bounded<K>, C, StateInformationMiddleware>,
    rate: RateConfig,
}

/// What is in a bucket after units were asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Balance {
    /// Units in a full bucket.
    pub(super) quota: u32,
    /// Time in which an empty one fills.
    pub(super) window: Duration,
    /// Units left.
    pub(super) left: u32,
    /// Time until it is full; until it has what was asked for, where that was refused.
    pub(super) whole_in: Duration,
    /// How long to wait, where the units were not there.
    pub(super) refused: Option<Duration>,
}

impl<K: Hash + Eq + Clone> Budget<K> {
    /// Buckets of this rate, at most `keys_max` of them at the same time.
    pub(super) fn new(rate: RateConfig, keys_max: usize) -> Self {
        Self::with_clock(rate, keys_max, MonotonicClock)
    }
}

impl<K: Hash + Eq + Clone, C: Clock> Budget<K, C> {
    fn with_clock(rate: RateConfig, keys_max: usize, clock: C) -> Self {
        let burst = NonZeroU32::new(rate.burst).unwrap_or(NonZeroU32::MIN);
        let period = Duration::from_secs(1) / rate.per_second.max(1);
        let quota =
            Quota::with_period(period).map_or_else(|| Quota::per_second(burst), |quota| quota.allow_burst(burst));
        let state = Bounded { keys_max: keys_max.max(1), kept: Mutex::new(LruCache::unbounded()) };
        let limiter = RateLimiter::<_, _, _, StateInformationMiddleware>::new(quota, state, clock);
        Self { limiter, rate }
    }

    /// Takes so many units out of the bucket of `key`, or none where it has fewer.
    pub(super) fn spend(&self, key: &K, units: u32) -> Balance {
        let window = self.time_for(self.rate.burst);
        let quota = self.rate.burst;
        let refused = |after| Balance { quota, window, left: 0, whole_in: after, refused: Some(after) };
        match self.limiter.check_key_n(key, NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN)) {
            Ok(Ok(state)) => {
                let left = state.remaining_burst_capacity().min(quota);
                Balance { quota, window, left, whole_in: self.time_for(quota - left), refused: None }
            }
            Ok(Err(not_until)) => refused(not_until.wait_time_from(self.limiter.clock().now())),
            // The configuration does not permit a bucket that cannot hold what the dearest call costs.
            Err(_) => refused(window),
        }
    }

    fn time_for(&self, units: u32) -> Duration {
        Duration::from_secs(1) * units / self.rate.per_second.max(1)
    }
}

/// When each key's next unit is due, for as many keys as there may be.
struct Bounded<K: Hash + Eq> {
    keys_max: usize,
    kept: Mutex<LruCache<K, Nanos>>,
}

impl<K: Hash + Eq + Clone> StateStore for Bounded<K> {
    type Key = K;

    fn measure_and_replace<T, F, E>(&self, key: &K, measure: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(due) = kept.get_mut(key) {
            let (outcome, next) = measure(Some(*due))?;
            *due = next;
            return Ok(outcome);
        }
        let (outcome, next) = measure(None)?;
        if kept.len() >= self.keys_max {
            kept.pop_lru();
        }
        kept.push(key.clone(), next);
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn units_come_back_at_their_rate_and_a_refusal_says_when() {
        let clock = FakeRelativeClock::default();
        let budget = Budget::with_clock(RateConfig { per_second: 10, burst: 40 }, 8, clock.clone());
        let full = budget.spend(&1, 10);
        assert_eq!((full.quota, full.window, full.left, full.refused), (40, Duration::from_secs(4), 30, None));
        assert_eq!(full.whole_in, Duration::from_secs(1));
        assert_eq!(budget.spend(&1, 30).left, 0);
        let refused = budget.spend(&1, 20);
        assert_eq!((refused.left, refused.refused), (0, Some(Duration::from_secs(2))));
        // Asking costs nothing.
        assert_eq!(budget.spend(&1, 20).refused, Some(Duration::from_secs(2)));
        assert_eq!(budget.spend(&2, 40).refused, None);
        clock.advance(Duration::from_millis(2_000));
        assert_eq!(budget.spend(&1, 20).refused, None);
        clock.advance(Duration::from_secs(100));
        assert_eq!(budget.spend(&1, 40).refused, None);
        assert!(budget.spend(&1, 1).refused.is_some());
        // More than a bucket holds is never there.
        assert!(budget.spend(&3, 41).refused.is_some());
    }

    #[test]
    fn a_flood_of_keys_takes_no_more_memory_and_nothing_from_those_who_call() {
        let store = Bounded { keys_max: 100, kept: Mutex::new(LruCache::unbounded()) };
        let seen = |key: u32| {
            store
                .measure_and_replace(&key, |due| {
                    Ok::<_, ()>((due.is_some(), due.unwrap_or(Nanos::new(u64::from(key)))))
                })
                .unwrap()
        };
        assert!(!seen(0));
        for stranger in 1..10_000 {
            seen(stranger);
            assert!(seen(0), "{stranger}");
        }
        assert_eq!(store.kept.lock().unwrap().len(), 100);
    }
}
