//! A bulkhead: so many permits at a time, and a bounded queue of those who wait for one. [`fair`] is the bulkhead for callers
//! who must not take each other's turns, [`families`] those in front of each chain family.

pub mod fair;
pub mod families;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Permits, and a queue of those who wait for one: first come, first served.
pub struct Bulkhead {
    permits: Arc<Semaphore>,
    waiting: Semaphore,
    wait_max: Duration,
}

impl Bulkhead {
    /// So many permits, and so many who may wait for them for at most `wait_max`.
    pub fn new(permits: usize, waiting: usize, wait_max: Duration) -> Self {
        let semaphore = |count: usize| Semaphore::new(count.min(Semaphore::MAX_PERMITS));
        Self { permits: Arc::new(semaphore(permits)), waiting: semaphore(waiting), wait_max }
    }

    /// A permit, until it is dropped; `None` at once when the queue is full, and later when it is too slow.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Some(permit);
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        timeout(self.wait_max, Arc::clone(&self.permits).acquire_owned()).await.ok()?.ok()
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
        let bulkhead = Arc::new(Bulkhead::new(1, 2, Duration::from_millis(100)));
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
