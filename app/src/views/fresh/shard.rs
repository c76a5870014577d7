//! Fresh views of one shard: what it is asked for, which is its head, by single flight, and its streams, through a bulkhead.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout},
};

use journal::StreamLog;

use crate::{bulkhead::Bulkhead, views::single_flight::SingleFlight};

/// How long a shard may take to tell its head.
const HEAD_WAIT_MAX: Duration = Duration::from_millis(800);
/// How long a shard that did not is not asked again.
const AWAY: Duration = Duration::from_secs(1);
/// Least time between two questions to one shard.
const PACE: Duration = Duration::from_millis(2);
/// How old the newest answer of a shard may be where something is shown without asking it; a wake hint that is lost hides
/// what other gateways wrote for no longer.
pub(super) const AGE_MAX: Duration = Duration::from_millis(200);
/// From when on it is asked again, ahead of need.
const REFRESH_AFTER: Duration = Duration::from_millis(100);
/// Streams of all shards that are read at a time. No shard has more than twice its share, and four times that in the queue.
const STREAMS_MAX: usize = 128;
/// Least number of them for one shard.
const STREAMS_MIN: usize = 8;
/// How long the reading of one stream waits for its turn.
pub(super) const STREAM_TURN_MAX: Duration = Duration::from_millis(250);

/// Streams of one of so many shards that are read at a time: twice its share.
pub(super) fn streams_of(shards: usize) -> usize {
    (2 * STREAMS_MAX).div_ceil(shards.max(1)).max(STREAMS_MIN)
}

/// What is asked of one shard.
pub(super) struct Shard {
    head: SingleFlight<u64>,
    away_until: Mutex<Option<Instant>>,
    /// When the newest question began that was answered, and the answer.
    asked: Mutex<Option<(Instant, u64)>>,
    /// Its streams that are being read.
    pub(super) streams: Bulkhead,
}

impl Shard {
    pub(super) fn new(runtime: &Handle, permits: usize) -> Self {
        let streams = Bulkhead::new("fresh_views", permits, 4 * permits, STREAM_TURN_MAX);
        let head = SingleFlight::new(runtime.clone(), PACE);
        Self { head, away_until: Mutex::default(), asked: Mutex::default(), streams }
    }

    /// The head as it is at some moment after this call; `None` while the shard does not answer.
    pub(super) async fn head(self: Arc<Self>, journal: &Arc<dyn StreamLog>, shard: u16) -> Option<u64> {
        if self.is_away() {
            return None;
        }
        self.head.answer(HEAD_WAIT_MAX * 2, self.question(journal, shard)).await
    }

    /// The head as it was asked for within [`AGE_MAX`]; `None` where it was not. It is asked for again before that is over.
    pub(super) fn recent_head(self: &Arc<Self>, journal: &Arc<dyn StreamLog>, shard: u16) -> Option<u64> {
        let (began, head) = (*lock(&self.asked))?;
        let age = began.elapsed();
        if age > REFRESH_AFTER && !self.is_away() {
            self.head.begin(self.question(journal, shard));
        }
        (age <= AGE_MAX).then_some(head)
    }

    /// The question for the head.
    fn question(
        self: &Arc<Self>,
        journal: &Arc<dyn StreamLog>,
        shard: u16,
    ) -> impl Fn() -> BoxFuture<'static, Option<u64>> + Send + Sync + 'static + use<> {
        let (journal, this) = (Arc::clone(journal), Arc::clone(self));
        move || {
            let (journal, this) = (Arc::clone(&journal), Arc::clone(&this));
            async move {
                let began = Instant::now();
                let head = timeout(HEAD_WAIT_MAX, journal.head(shard)).await.ok().and_then(Result::ok);
                *lock(&this.away_until) = head.is_none().then(|| Instant::now() + AWAY);
                if let Some(head) = head {
                    *lock(&this.asked) = Some((began, head));
                }
                head
            }
            .boxed()
        }
    }

    fn is_away(&self) -> bool {
        lock(&self.away_until).is_some_and(|until| Instant::now() < until)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each is set at once, so it is whole whenever the lock is free.
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
