//! A bulkhead: so many permits at a time, and a bounded queue of those who wait for one. [`fair`] is the bulkhead for callers
//! who must not take each other's turns, [`families`] those in front of each chain family.

pub mod fair;
pub mod families;

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, counter, gauge};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Permits, and a queue of those who wait for one: first come, first served.
pub struct Bulkhead {
    permits: Arc<Semaphore>,
    waiting: Semaphore,
    wait_max: Duration,
    in_use: Gauge,
    refused: Counter,
}

/// A permit, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    _permit: OwnedSemaphorePermit,
    _in_use: InUse,
}

/// A permit that is counted until it is dropped.
#[derive(Debug)]
struct InUse(Gauge);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Bulkhead {
    /// So many permits, and so many who may wait for them for at most `wait_max`. What is counted of it stands under `lane`,
    /// together with that of others of the same name.
    pub fn new(lane: &'static str, permits: usize, waiting: usize, wait_max: Duration) -> Self {
        let semaphore = |count: usize| Semaphore::new(count.min(Semaphore::MAX_PERMITS));
        let in_use = gauge!("gw_permits_in_use", "lane" => lane);
        let refused = counter!("gw_permits_refused_total", "lane" => lane);
        Self { permits: Arc::new(semaphore(permits)), waiting: semaphore(waiting), wait_max, in_use, refused }
    }

    /// A permit, until it is dropped; `None` at once when the queue is full, and later when it is too slow.
    pub async fn permit(&self) -> Option<Permit> {
        let permit = self.acquire().await;
        match permit {
            Some(permit) => {
                self.in_use.increment(1.0);
                Some(Permit { _permit: permit, _in_use: InUse(self.in_use.clone()) })
            }
            None => {
                self.refused.increment(1);
                None
            }
        }
    }

    async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        timeout(self.wait_max, Arc::clone(&self.permits).acquire_owned()).await.ok()?.ok()
    }

    /// Counts a refusal of who did not even ask for a permit, because it is full.
    pub fn count_refusal(&self) {
        self.refused.increment(1);
    }

    /// Whether who comes now would get neither a permit nor a place in the queue.
    pub fn is_full(&self) -> bool {
        self.permits.available_permits() == 0 && self.waiting.available_permits() == 0
    }

    /// Permits that are free, and places in the queue for them.
    pub fn free(&self) -> (usize, usize) {
        (self.permits.available_permits(), self.waiting.available_permits())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_comes_first_is_served_first_and_nobody_waits_too_long() {
        let bulkhead = Arc::new(Bulkhead::new("tests", 1, 2, Duration::from_millis(100)));
        let started = Instant::now();
        let first = bulkhead.permit().await.unwrap();
        assert!(!bulkhead.is_full());
        let wait = || {
            let bulkhead = bulkhead.clone();
            tokio::spawn(async move { bulkhead.permit().await })
        };
        let (second, third) = (wait(), wait());
        while bulkhead.free() != (0, 0) {
            tokio::task::yield_now().await;
        }
        assert!(bulkhead.permit().await.is_none() && bulkhead.is_full());
        assert_eq!(started.elapsed(), Duration::ZERO);
        drop(first);
        let second = second.await.unwrap().unwrap();
        assert!(third.await.unwrap().is_none());
        assert_eq!((started.elapsed(), bulkhead.free()), (Duration::from_millis(100), (0, 2)));
        drop(second);
        assert_eq!(bulkhead.free(), (1, 2));
    }
}
