//! Single flight: many who want to read the same at the same time ask for it once.
//!
//! Nobody is given an answer that was asked for before he asked, so an answer that is shared is as new as one's own, and whoever
//! asks twice in a row gets two answers.

use std::{
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Reads under way, by what is read.
#[derive(Debug)]
pub struct SingleFlight<K, V>(Mutex<HashMap<K, Arc<Flight<V>>>>);

#[derive(Debug)]
struct Flight<V> {
    /// How many have asked.
    asked: AtomicU64,
    /// The last answer, and how many had asked when it was asked for. Held while one is under way.
    last: tokio::sync::Mutex<Option<(u64, V)>>,
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone, V: Clone> SingleFlight<K, V> {
    /// What `ask` gives, or gave somebody else who began to ask for `key` after this call.
    pub async fn read<F: Future<Output = V>>(&self, key: &K, ask: impl FnOnce() -> F) -> V {
        // Dropped after the flight.
        let _joined = Joined { flights: self, key };
        let flight = self.flights().entry(key.clone()).or_default().clone();
        let number = flight.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut last = flight.last.lock().await;
        if let Some((begun, answer)) = &*last
            && *begun >= number
        {
            return answer.clone();
        }
        let begun = flight.asked.load(Ordering::SeqCst);
        let answer = ask().await;
        *last = Some((begun, answer.clone()));
        answer
    }

    // Nothing panics while it is held.
    fn flights(&self) -> MutexGuard<'_, HashMap<K, Arc<Flight<V>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Default for Flight<V> {
    fn default() -> Self {
        Self { asked: AtomicU64::new(0), last: tokio::sync::Mutex::new(None) }
    }
}

/// One who asks, or has asked and holds the flight no more; the last one forgets the answer.
struct Joined<'a, K: Eq + Hash + Clone, V: Clone> {
    flights: &'a SingleFlight<K, V>,
    key: &'a K,
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Joined<'_, K, V> {
    fn drop(&mut self) {
        let mut flights = self.flights.flights();
        // The one in the map; more are made only while the map is locked.
        if flights.get(self.key).is_some_and(|flight| Arc::strong_count(flight) == 1) {
            flights.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        task::{Context, Waker},
        time::Duration,
    };

    use super::*;

    #[derive(Default)]
    struct Node {
        flights: SingleFlight<&'static str, u64>,
        asked: AtomicU64,
    }

    impl Node {
        async fn read(&self, key: &'static str) -> u64 {
            let ask = || async {
                let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::time::sleep(Duration::from_secs(1)).await;
                number
            };
            self.flights.read(&key, ask).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_while_a_read_is_under_way_shares_the_next_one() {
        let node = Node::default();
        let all = tokio::join!(node.read("a"), node.read("a"), node.read("a"), node.read("b"));
        assert_eq!(all, (1, 3, 3, 2), "nobody has an answer that was asked for before");
        assert!(node.flights.flights().is_empty());
        assert_eq!(node.read("a").await, 4);
        assert_eq!(node.read("a").await, 5, "twice in a row is twice");
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_gives_up_leaves_the_read_to_the_next() {
        let node = Node::default();
        let gives_up = tokio::time::timeout(Duration::from_millis(500), node.read("a"));
        let (gave_up, answer) = tokio::join!(gives_up, node.read("a"));
        assert!(gave_up.is_err());
        assert_eq!(answer, 2);
        assert!(node.flights.flights().is_empty());
    }
    #[test]
    fn of_two_who_leave_at_the_same_time_one_forgets_the_answer() {
        const WITHIN: Duration = Duration::from_secs(10);
        let flights = SingleFlight::<u32, ()>::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut reads = [0, 1].map(|_| Box::pin(flights.read(&7, std::future::pending)));
        for read in &mut reads {
            assert!(read.as_mut().poll(&mut context).is_pending());
        }
        std::thread::scope(|scope| {
            let map = flights.flights();
            for read in reads {
                scope.spawn(|| drop(read));
            }
            // Whoever leaves has let go before he looks whether anybody is left.
            let begun = std::time::Instant::now();
            while Arc::strong_count(&map[&7]) > 1 && begun.elapsed() < WITHIN {
                std::thread::yield_now();
            }
            assert_eq!(Arc::strong_count(&map[&7]), 1);
        });
        assert!(flights.flights().is_empty());
    }
}
