//! Single flight over a short cache: who asks for what was read a moment ago is given that, and callers at the same time share one read. Requests
//! that nobody signed so cost a node next to nothing.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use sagas::ports::Transient;

/// What was read last: the caller that reads it anew holds the lock, and the others wait for its result.
type Last<V> = Arc<tokio::sync::Mutex<Option<(Instant, V)>>>;

/// What was read lately, by key.
#[derive(Debug)]
pub struct SingleFlight<K, V> {
    age_max: Duration,
    last: Mutex<HashMap<K, Last<V>>>,
}

impl<K: Clone + Eq + Hash, V: Copy> SingleFlight<K, V> {
    /// Nothing was read yet; what was read counts for `age_max`.
    pub fn new(age_max: Duration) -> Self {
        Self { age_max, last: Mutex::default() }
    }

    /// What `read` read for `key` lately, as long as `is_current` says so, or what it reads now. Keys are never forgotten, so they are of the
    /// configuration.
    ///
    /// # Errors
    /// [`Transient`] of the read.
    pub async fn get(
        &self,
        key: &K,
        is_current: impl Fn(&V) -> bool,
        read: impl Future<Output = Result<V, Transient>>,
    ) -> Result<V, Transient> {
        let last = {
            // Inserting cannot panic half way.
            let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(key.clone()).or_default().clone()
        };
        let mut last = last.lock().await;
        if let Some((read_at, value)) = *last
            && read_at.elapsed() < self.age_max
            && is_current(&value)
        {
            return Ok(value);
        }
        let value = read.await?;
        *last = Some((Instant::now(), value));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_share_a_read_until_it_is_old_or_not_current_and_a_fault_is_not_kept() {
        let cache = SingleFlight::new(Duration::from_secs(5));
        let reads = AtomicU32::new(0);
        let read = async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(reads.fetch_add(1, Ordering::SeqCst))
        };
        let one = || cache.get(&"a", |_| true, read());
        let (first, second, other) = tokio::join!(one(), one(), cache.get(&"b", |_| true, read()));
        assert_eq!((first.clone().unwrap(), other.unwrap()), (second.unwrap(), 1 - first.unwrap()));
        assert_eq!(reads.load(Ordering::SeqCst), 2);
        assert_eq!(cache.get(&"a", |_| false, read()).await.unwrap(), 2);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(cache.get(&"a", |_| true, async { Err(Transient::unreachable("away")) }).await.is_err());
        assert_eq!(one().await.unwrap(), 3);
    }
}
