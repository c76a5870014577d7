//! Lanes: bulkheads of the calls. Endpoints that fail, are slow or have not succeeded yet share a lane of their own, and each owner
//! has a part of the calls and no more.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use lru::LruCache;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::{queue::Health, webhook::WebhookId};

/// An endpoint that takes longer for a call is slow.
const SLOW: Duration = Duration::from_secs(1);
/// For how many calls after a slow one an endpoint counts as slow.
const SLOW_CALLS: u32 = 32;
/// Of all calls, one in so many may be to the endpoints of one owner.
const OWNER_SHARE: usize = 16;
/// Of all calls, one in so many may be to an endpoint in the slow lane.
const SLOW_SHARE: usize = 4;
/// Queues that are being read at a time, as when a partition is taken over.
const OPENING_MAX: usize = 16;
/// Slow endpoints that are remembered.
const REMEMBERED_MAX: NonZeroUsize = match NonZeroUsize::new(16_384) {
    Some(max) => max,
    None => NonZeroUsize::MIN,
};

/// How many calls are under way at a time.
#[derive(Debug)]
pub struct Lanes {
    quick: Semaphore,
    slow: Semaphore,
    opening: Semaphore,
    of_owner_max: usize,
    /// By originator, as long as somebody has a permit or waits for one.
    owners: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// For how many more calls an endpoint counts as slow. It outlives couriers, which end when they have nothing to do.
    slow_calls: Mutex<LruCache<WebhookId, u32>>,
}

/// What a call holds while it is under way.
#[derive(Debug)]
pub struct Permit<'a> {
    _lane: SemaphorePermit<'a>,
    _owner: OwnedSemaphorePermit,
    // Dropped last, so that the permit is back by then.
    _seat: Seat<'a>,
}

/// A part in an owner's semaphore, which is dropped with the last one.
#[derive(Debug)]
struct Seat<'a> {
    lanes: &'a Lanes,
    originator: String,
    semaphore: Option<Arc<Semaphore>>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut owners = locked(&self.lanes.owners);
        // Copies are made and dropped under the lock; a permit's own goes before the seat.
        drop(self.semaphore.take());
        if owners.get(&self.originator).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            owners.remove(&self.originator);
        }
    }
}

/// Nothing panics while it is held.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lanes {
    /// With so many calls in the quick lane, a quarter of it in the slow one, and a sixteenth for one owner.
    pub fn new(calls_max: usize) -> Self {
        Self {
            quick: Semaphore::new(calls_max.max(1)),
            slow: Semaphore::new(calls_max.div_ceil(SLOW_SHARE).max(1)),
            opening: Semaphore::new(OPENING_MAX),
            of_owner_max: (calls_max / OWNER_SHARE).max(1),
            owners: Mutex::default(),
            slow_calls: Mutex::new(LruCache::new(REMEMBERED_MAX)),
        }
    }

    /// Waits until a queue may be read; `None` never comes.
    pub(crate) async fn opening(&self) -> Option<SemaphorePermit<'_>> {
        self.opening.acquire().await.ok()
    }

    /// Whether the endpoint belongs into the slow lane.
    pub(crate) fn is_slow(&self, id: &WebhookId, health: &Health) -> bool {
        health.last_success_at.is_none() || health.failures > 0 || locked(&self.slow_calls).contains(id)
    }

    /// A call to the endpoint took so long.
    pub(crate) fn took(&self, id: &WebhookId, took: Duration) {
        let mut slow_calls = locked(&self.slow_calls);
        if took > SLOW {
            slow_calls.put(id.clone(), SLOW_CALLS);
        } else if let Some(left) = slow_calls.get_mut(id) {
            *left -= 1;
            if *left == 0 {
                slow_calls.pop(id);
            }
        }
    }

    /// Waits until a call may begin: first for the owner's part, so that what he has too much of waits in no lane; `None` never
    /// comes.
    pub(crate) async fn call(&self, originator: &str, slow: bool) -> Option<Permit<'_>> {
        let semaphore = {
            let mut owners = locked(&self.owners);
            let new = || Arc::new(Semaphore::new(self.of_owner_max));
            Arc::clone(owners.entry(originator.to_owned()).or_insert_with(new))
        };
        let waiting = Arc::clone(&semaphore);
        let seat = Seat { lanes: self, originator: originator.to_owned(), semaphore: Some(semaphore) };
        let owner = waiting.acquire_owned().await.ok()?;
        let lane = if slow { &self.slow } else { &self.quick };
        Some(Permit { _lane: lane.acquire().await.ok()?, _owner: owner, _seat: seat })
    }
}

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use futures::FutureExt;

    use super::*;

    #[test]
    fn an_endpoint_is_slow_until_it_succeeds_while_it_fails_and_for_32_calls_after_a_slow_one() {
        let (lanes, id) = (Lanes::new(16), WebhookId::random());
        let well = Health { last_success_at: Some(Utc::now()), ..Health::default() };
        assert!(lanes.is_slow(&id, &Health::default()));
        assert!(!lanes.is_slow(&id, &well));
        assert!(lanes.is_slow(&id, &Health { failures: 1, ..well.clone() }));
        lanes.took(&id, SLOW * 2);
        for call in 0..SLOW_CALLS {
            assert!(lanes.is_slow(&id, &well), "{call}");
            lanes.took(&id, Duration::ZERO);
        }
        assert!(!lanes.is_slow(&id, &well));
    }

    #[test]
    fn an_owner_has_his_part_of_the_calls_and_is_forgotten_when_he_has_none() {
        let lanes = Lanes::new(64);
        let call = |owner| lanes.call(owner, true).now_or_never().flatten();
        let held: Vec<_> = (0..4).map(|_| call("one").unwrap()).collect();
        assert!(call("one").is_none());
        let other = call("other").unwrap();
        assert_eq!(locked(&lanes.owners).len(), 2);
        drop(held);
        assert!(call("one").is_some());
        assert_eq!(locked(&lanes.owners).len(), 1);
        drop(other);
        assert!(locked(&lanes.owners).is_empty());
    }

    #[test]
    fn what_is_slow_takes_no_place_of_what_is_quick() {
        let lanes = Lanes::new(16);
        let owner = |n: usize| format!("owner {n}");
        let slow: Vec<_> = (0..4).map(|n| lanes.call(&owner(n), true).now_or_never().flatten().unwrap()).collect();
        assert!(lanes.call("late", true).now_or_never().is_none());
        assert!(lanes.call("late", false).now_or_never().flatten().is_some());
        drop(slow);
    }
}
