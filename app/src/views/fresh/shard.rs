//! Fresh views of one shard: what it is asked for, which is its head, by single flight, and its streams, through a bulkhead.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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
    /// Its streams that are being read.
    pub(super) streams: Bulkhead,
}

impl Shard {
    pub(super) fn new(runtime: &Handle, permits: usize) -> Self {
        let streams = Bulkhead::new(permits, 4 * permits, STREAM_TURN_MAX);
        Self { head: SingleFlight::new(runtime.clone(), PACE), away_until: Mutex::default(), streams }
    }

    /// The head as it is at some moment after this call; `None` while the shard does not answer.
    pub(super) async fn head(self: Arc<Self>, journal: &Arc<dyn StreamLog>, shard: u16) -> Option<u64> {
        if self.away_until().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let (journal, this) = (Arc::clone(journal), Arc::clone(&self));
        let ask = move || {
            let (journal, this) = (Arc::clone(&journal), Arc::clone(&this));
            async move {
                let head = timeout(HEAD_WAIT_MAX, journal.head(shard)).await.ok().and_then(Result::ok);
                *this.away_until() = head.is_none().then(|| Instant::now() + AWAY);
                head
            }
        };
        self.head.answer(HEAD_WAIT_MAX * 2, ask).await
    }

    fn away_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.away_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
