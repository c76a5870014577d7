//! Single flight: the same judgement, asked for more than once at the same time, is made once.
//!
//! A verdict is kept for a moment after it was found, so that whoever repeats an ask reads the chains a few times a second
//! and not as often as he asks. What makes two asks the same is all that they say: one that differs in anything is judged
//! by itself, and no junk in the name of a payment stands in the way of the true ask.
//!
//! The single flight of `app` is another: a view must be as new as the question, so there nobody joins one that has begun.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::time::sleep;

use events::Hash32;

/// How long a verdict is kept.
const VERDICT_KEPT: Duration = Duration::from_millis(250);

type Flight<T> = Shared<BoxFuture<'static, Option<T>>>;

/// The judgements at work, by what is asked. Cheap to clone.
pub(super) struct SingleFlight<T> {
    running: Arc<Mutex<HashMap<Hash32, Flight<T>>>>,
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    pub(super) fn new() -> Self {
        Self { running: Arc::default() }
    }

    /// The judgement of this that is at work or just done, if there is one.
    pub(super) fn running(&self, key: &Hash32) -> Option<Flight<T>> {
        locked(&self.running).get(key).cloned()
    }

    /// The judgement of this that is at work, else `judgement`, which goes on by itself from here: whoever asked may be
    /// gone before it is done. It gives `None` when it panics.
    pub(super) fn start(&self, key: Hash32, judgement: impl Future<Output = T> + Send + 'static) -> Flight<T> {
        let mut running = locked(&self.running);
        if let Some(flight) = running.get(&key) {
            return flight.clone();
        }
        let task = tokio::spawn(judgement);
        let flight = async move { task.await.ok() }.boxed().shared();
        running.insert(key, flight.clone());
        let (done, running) = (flight.clone(), Arc::clone(&self.running));
        tokio::spawn(async move {
            done.await;
            sleep(VERDICT_KEPT).await;
            locked(&running).remove(&key);
        });
        flight
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A map is whole after every insertion and removal.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_is_judged_once_and_again_after_a_moment() {
        let (flights, count, go) = (SingleFlight::new(), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let judgement = || {
            let (count, go) = (count.clone(), go.clone());
            async move {
                go.notified().await;
                count.fetch_add(1, Ordering::SeqCst) + 1
            }
        };
        let (this, that) = (Hash32([1; 32]), Hash32([2; 32]));
        assert!(flights.running(&this).is_none());
        let first = flights.start(this, judgement());
        // Whoever began it may go.
        drop(first.clone());
        let second = flights.start(this, judgement());
        let third = flights.running(&this).unwrap();
        go.notify_one();
        assert_eq!((first.await, second.await, third.await), (Some(1), Some(1), Some(1)));
        assert_eq!(flights.running(&this).unwrap().await, Some(1));
        let other = flights.start(that, judgement());
        go.notify_one();
        assert_eq!(other.await, Some(2));
        sleep(VERDICT_KEPT * 2).await;
        assert!(flights.running(&this).is_none() && flights.running(&that).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_judgement_that_panics_gives_nothing_and_is_forgotten() {
        let flights = SingleFlight::<u8>::new();
        let key = Hash32([1; 32]);
        assert_eq!(flights.start(key, async { panic!("as a judge may") }).await, None);
        sleep(VERDICT_KEPT * 2).await;
        assert!(flights.running(&key).is_none());
    }
}
