//! Token bucket and consumer quota of each auditor.
//!
//! Both are in the memory of one gateway and count what comes to it: where several run, each grants as much.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroU32,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, MonotonicClock},
    middleware::NoOpMiddleware,
    state::keyed::HashMapStateStore,
};

/// Requests that an auditor may make at once: a consumer for each shard of 32, shown and deleted again, takes 96.
const BURST: NonZeroU32 = NonZeroU32::new(128).unwrap();
/// Requests a second of an auditor that has made as many.
const REQUESTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(4).unwrap();
/// Most consumers of one stream that a gateway makes for an auditor.
pub const CONSUMERS_MAX: usize = 8;
/// Most consumers of a stream, of all auditors and of the gateways, beyond which auditors get no more.
pub(super) const STREAM_CONSUMERS_MAX: usize = 64;

/// Most auditors that are remembered by what they asked for lately; more than these wait until some have rested.
const AUDITORS_MAX: usize = 1_024;

/// What each auditor has asked for. Auditors are those that nats-server has let in.
pub(super) struct Allowances<C: Clock = MonotonicClock> {
    requests: RateLimiter<String, HashMapStateStore<String>, C, NoOpMiddleware<C::Instant>>,
    /// Names of the consumers of each auditor, by stream.
    consumers: HashMap<String, HashMap<String, Vec<String>>>,
}

impl Default for Allowances {
    fn default() -> Self {
        Self::with_clock(MonotonicClock)
    }
}

impl<C: Clock> Allowances<C> {
    fn with_clock(clock: C) -> Self {
        let quota = Quota::per_second(REQUESTS_PER_SECOND).allow_burst(BURST);
        let requests = RateLimiter::new(quota, HashMapStateStore::default(), clock);
        Self { requests, consumers: HashMap::new() }
    }

    /// Takes one request of `auditor`'s allowance; false where none is left.
    pub(super) fn take_request(&self, auditor: &str) -> bool {
        if self.requests.len() >= AUDITORS_MAX {
            // Of whoever has its whole allowance again nothing needs to be known.
            self.requests.retain_recent();
            if self.requests.len() >= AUDITORS_MAX {
                return false;
            }
        }
        self.requests.check_key(&auditor.to_owned()).is_ok()
    }

    /// Whether `auditor` may have one consumer more of `stream`, whose consumers are `alive`.
    pub(super) fn has_room(&mut self, auditor: &str, stream: &str, alive: &HashSet<String>) -> bool {
        let own = self.consumers.get_mut(auditor).and_then(|streams| streams.get_mut(stream)).map_or(0, |own| {
            own.retain(|name| alive.contains(name));
            own.len()
        });
        own < CONSUMERS_MAX && alive.len() < STREAM_CONSUMERS_MAX
    }

    /// Notes that `auditor` has the consumer `name` of `stream`.
    pub(super) fn note_consumer(&mut self, auditor: &str, stream: &str, name: String) {
        let own = self.consumers.entry(auditor.to_owned()).or_default().entry(stream.to_owned()).or_default();
        if !own.contains(&name) {
            own.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn who_has_asked_often_waits_and_nobody_else_does() {
        let clock = FakeRelativeClock::default();
        let allowances = Allowances::with_clock(clock.clone());
        let asked = || (0..1_000).filter(|_| allowances.take_request("UA")).count();
        assert_eq!(asked(), 128);
        assert!(allowances.take_request("UB"));
        clock.advance(Duration::from_millis(500));
        assert_eq!(asked(), 2);
        clock.advance(Duration::from_secs(3_600));
        assert_eq!(asked(), 128);
    }

    #[test]
    fn names_without_end_are_not_remembered() {
        let clock = FakeRelativeClock::default();
        let allowances = Allowances::with_clock(clock.clone());
        let taken = (0..10 * AUDITORS_MAX).filter(|number| allowances.take_request(&number.to_string())).count();
        assert_eq!((taken, allowances.requests.len()), (AUDITORS_MAX, AUDITORS_MAX));
        clock.advance(Duration::from_secs(60));
        assert!(allowances.take_request("UA"));
        assert_eq!(allowances.requests.len(), 1);
    }

    #[test]
    fn an_auditor_has_few_consumers_of_a_stream_and_those_that_are_gone_do_not_count() {
        let mut allowances = Allowances::default();
        let mut alive = HashSet::new();
        for number in 0..CONSUMERS_MAX {
            assert!(allowances.has_room("UA", "EVT_00", &alive));
            allowances.note_consumer("UA", "EVT_00", number.to_string());
            alive.insert(number.to_string());
        }
        assert!(!allowances.has_room("UA", "EVT_00", &alive));
        assert!(allowances.has_room("UA", "EVT_01", &HashSet::new()) && allowances.has_room("UB", "EVT_00", &alive));
        alive.remove("0");
        assert!(allowances.has_room("UA", "EVT_00", &alive));
        let many = (0..STREAM_CONSUMERS_MAX).map(|number| format!("other {number}")).collect();
        assert!(!allowances.has_room("UB", "EVT_00", &many));
    }
}
