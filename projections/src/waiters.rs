//! Waiters (long poll): tasks that wait for a payment or batch to change.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use events::StreamId;

/// Number of locks that the map is split over, so that thousands of waiters and all shards do not contend for one.
const STRIPES: usize = 64;

/// Wakes those who wait for a stream. An entry lives as long as somebody waits under it.
#[derive(Debug)]
pub(crate) struct Waiters {
    stripes: Vec<Mutex<Stripe>>,
    hasher: RandomState,
}

type Stripe = HashMap<StreamId, Entry>;

#[derive(Debug)]
struct Entry {
    notify: Arc<Notify>,
    waiting: usize,
}

/// A place in the queue for one stream, given up when dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    stream_id: &'a StreamId,
    notify: Arc<Notify>,
}

impl Waiters {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    /// Enters a wait. Take [`Waiting::notify`]'s future and enable it *before* looking at the stream, or a change in
    /// between is missed.
    pub(crate) fn enter<'a>(&'a self, stream_id: &'a StreamId) -> Waiting<'a> {
        let mut stripe = self.stripe(stream_id);
        let entry =
            stripe.entry(stream_id.clone()).or_insert_with(|| Entry { notify: Arc::new(Notify::new()), waiting: 0 });
        entry.waiting += 1;
        Waiting { waiters: self, stream_id, notify: Arc::clone(&entry.notify) }
    }

    /// Wakes everybody who waits for the stream.
    pub(crate) fn wake(&self, stream_id: &StreamId) {
        if let Some(entry) = self.stripe(stream_id).get(stream_id) {
            entry.notify.notify_waiters();
        }
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        for stripe in &self.stripes {
            for entry in stripe.lock().unwrap_or_else(PoisonError::into_inner).values() {
                entry.notify.notify_waiters();
            }
        }
    }

    fn stripe(&self, stream_id: &StreamId) -> MutexGuard<'_, Stripe> {
        let index = self.hasher.hash_one(stream_id) as usize % STRIPES;
        // No code panics while it holds the lock, and a map of counters is whole at every step.
        self.stripes[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn entries(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().unwrap().len()).sum()
    }
}

impl Waiting<'_> {
    /// What is notified when the stream changes.
    pub(crate) fn notify(&self) -> &Notify {
        &self.notify
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut stripe = self.waiters.stripe(self.stream_id);
        if let Some(entry) = stripe.get_mut(self.stream_id) {
            entry.waiting -= 1;
            if entry.waiting == 0 {
                stripe.remove(self.stream_id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use events::{PaymentId, QuoteRequestId};

    use super::*;

    #[tokio::test]
    async fn entries_go_with_their_last_waiter() {
        let waiters = Waiters::new();
        let (one, two) = (PaymentId::derive("a", "1").into(), QuoteRequestId::derive("a", "2").into());
        let (first, second, other) = (waiters.enter(&one), waiters.enter(&one), waiters.enter(&two));
        assert_eq!(waiters.entries(), 2);
        let mut woken = Box::pin(first.notify().notified());
        woken.as_mut().enable();
        waiters.wake(&one);
        woken.await;
        drop((first, other));
        assert_eq!(waiters.entries(), 1);
        drop(second);
        assert_eq!(waiters.entries(), 0);
    }
}
