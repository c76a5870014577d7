//! So many at a time, and a bounded line in front of them.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Places, and a line of those who wait for one: first come, first served.
pub struct Line {
    places: Arc<Semaphore>,
    waiting: Semaphore,
    wait_max: Duration,
}

impl Line {
    /// So many places, and so many who may wait for them for at most `wait_max`.
    pub fn new(places: usize, waiting: usize, wait_max: Duration) -> Self {
        let semaphore = |count: usize| Semaphore::new(count.min(Semaphore::MAX_PERMITS));
        Self { places: Arc::new(semaphore(places)), waiting: semaphore(waiting), wait_max }
    }

    /// A place, until it is dropped; `None` at once when the line is full, and later when it is too slow.
    pub async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Some(place);
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        timeout(self.wait_max, Arc::clone(&self.places).acquire_owned()).await.ok()?.ok()
    }

    /// Whether who comes now would get no place, not even in line.
    pub fn is_full(&self) -> bool {
        self.places.available_permits() == 0 && self.waiting.available_permits() == 0
    }

    /// Places that are free, and in line for them.
    pub fn free(&self) -> (usize, usize) {
        (self.places.available_permits(), self.waiting.available_permits())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_comes_first_is_served_first_and_nobody_waits_too_long() {
        let line = Arc::new(Line::new(1, 2, Duration::from_millis(100)));
        let started = Instant::now();
        let first = line.place().await.unwrap();
        assert!(!line.is_full());
        let wait = || {
            let line = line.clone();
            tokio::spawn(async move { line.place().await })
        };
        let (second, third) = (wait(), wait());
        while line.free() != (0, 0) {
            tokio::task::yield_now().await;
        }
        assert!(line.place().await.is_none() && line.is_full());
        assert_eq!(started.elapsed(), Duration::ZERO);
        drop(first);
        let second = second.await.unwrap().unwrap();
        assert!(third.await.unwrap().is_none());
        assert_eq!((started.elapsed(), line.free()), (Duration::from_millis(100), (0, 2)));
        drop(second);
        assert_eq!(line.free(), (1, 2));
    }
}
