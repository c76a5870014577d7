//! Block poller: one for everyone who waits for a chain's next block.

use std::{
    future::Future,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::{OnceCell, watch},
    time::Instant,
};

use crate::head_feed::HeadFeed;

/// Longest that [`BlockPoller::next`] holds.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The newest block that was seen, and when.
type Newest<T> = watch::Sender<Option<(T, Instant)>>;

/// Polls for the newest block of one chain, only while somebody waits.
#[derive(Debug)]
pub struct BlockPoller<T> {
    newest: Arc<Newest<T>>,
    poller: OnceCell<()>,
    every: Duration,
    feed: Option<HeadFeed>,
}

impl<T: PartialEq + Send + Sync + 'static> BlockPoller<T> {
    /// Nothing was seen so far; `poll_ms` is the time between two looks.
    pub fn new(poll_ms: u64) -> Self {
        Self {
            newest: Arc::new(watch::Sender::new(None)),
            poller: OnceCell::new(),
            every: Duration::from_millis(poll_ms.max(1)),
            feed: None,
        }
    }

    /// The same, which looks when the feed says that there is a block, and less often without that.
    #[must_use]
    pub fn hinted(self, feed: Option<HeadFeed>) -> Self {
        Self { feed, ..self }
    }

    /// Returns when there is a new block, or after a bounded time. The first caller's `look` is what asks the chain, for
    /// all callers and until the poller is dropped; it gives `None` when there is no answer.
    ///
    /// A block that came only just before the call may have been missed by what the caller looked at last, so then the
    /// wait is one poll interval only.
    pub async fn next<F>(&self, look: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        let poller =
            || async { drop(tokio::spawn(poll(Arc::downgrade(&self.newest), self.every, self.feed.clone(), look))) };
        self.poller.get_or_init(poller).await;
        let mut newest = self.newest.subscribe();
        let fresh =
            newest.borrow_and_update().as_ref().is_some_and(|(_, at)| at.elapsed() < self.every.saturating_mul(2));
        let wait = if fresh { self.every } else { WAIT_MAX.max(self.every) };
        // Both a time-out and a closed channel end the wait; the caller looks at the chain either way.
        let _ = tokio::time::timeout(wait, newest.changed()).await;
    }
}

impl<T: Clone> BlockPoller<T> {
    /// The newest block that was seen; `None` where nobody has waited for one yet. It ages while nobody waits.
    pub fn newest(&self) -> Option<T> {
        self.newest.borrow().as_ref().map(|(block, _)| block.clone())
    }
}

async fn poll<T, F>(newest: Weak<Newest<T>>, every: Duration, feed: Option<HeadFeed>, look: impl Fn() -> F)
where
    T: PartialEq,
    F: Future<Output = Option<T>>,
{
    let mut hints = feed.as_ref().map(HeadFeed::hints);
    loop {
        let Some(newest) = newest.upgrade() else { return };
        let is_waited_for = newest.receiver_count() > 0;
        if let Some(feed) = feed.as_ref().filter(|_| is_waited_for) {
            feed.want();
        }
        if is_waited_for && let Some(head) = look().await {
            newest.send_if_modified(|last| {
                let changed = last.as_ref().is_none_or(|(seen, _)| *seen != head);
                if changed {
                    *last = Some((head, Instant::now()));
                }
                changed
            });
        }
        drop(newest);
        match &mut hints {
            Some(hints) if is_waited_for => hints.pause(every).await,
            _ => tokio::time::sleep(every).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const EVERY: Duration = Duration::from_millis(50);

    /// A chain at a height, and what asks for it.
    fn chain() -> (Arc<AtomicU64>, BlockPoller<u64>) {
        (Arc::new(AtomicU64::new(1)), BlockPoller::new(u64::try_from(EVERY.as_millis()).unwrap()))
    }

    async fn wait(poller: &BlockPoller<u64>, height: &Arc<AtomicU64>) -> Duration {
        let (height, begun) = (height.clone(), Instant::now());
        let look = move || std::future::ready(Some(height.load(Ordering::Relaxed)));
        poller.next(look).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_block_wakes_whoever_waits_within_a_poll_or_two() {
        let (height, poller) = chain();
        wait(&poller, &height).await;
        tokio::time::sleep(3 * EVERY).await;
        let mined = tokio::spawn({
            let height = height.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(2)).await;
                height.fetch_add(1, Ordering::Relaxed);
            }
        });
        let waited = wait(&poller, &height).await;
        mined.await.unwrap();
        assert!(waited >= Duration::from_secs(2) && waited <= Duration::from_secs(2) + 2 * EVERY, "{waited:?}");
        assert_eq!(poller.newest(), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_new_block_a_wait_ends_by_itself() {
        let (height, poller) = chain();
        wait(&poller, &height).await;
        tokio::time::sleep(3 * EVERY).await;
        assert_eq!(wait(&poller, &height).await, WAIT_MAX);
    }
}
