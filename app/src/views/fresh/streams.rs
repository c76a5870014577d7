//! Streams that are being read, each by single flight.

use std::{
    collections::{HashMap, hash_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, time::timeout};

use events::StreamId;
use journal::StreamLog;

use super::{shard::Shard, view::View};
use crate::views::single_flight::SingleFlight;

/// How long the reading of one stream may take.
const STREAM_WAIT_MAX: Duration = Duration::from_secs(2);
/// Least time between two readings of one stream.
const STREAM_PACE: Duration = Duration::from_millis(5);

/// Streams that are being read. Who asks for the same one at the same time shares the reading.
pub(super) struct Streams<V>(Arc<Readings<V>>);

struct Readings<V> {
    runtime: Handle,
    by_stream: Mutex<HashMap<StreamId, Reading<V>>>,
}

struct Reading<V> {
    flight: SingleFlight<Arc<V>>,
    readers: usize,
}

/// One who waits for a reading, until dropped.
struct Reader<'a, V> {
    streams: &'a Streams<V>,
    stream_id: &'a StreamId,
    flight: SingleFlight<Arc<V>>,
}

impl<V> Clone for Streams<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V> Streams<V> {
    pub(super) fn new(runtime: &Handle) -> Self {
        Self(Arc::new(Readings { runtime: runtime.clone(), by_stream: Mutex::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, Reading<V>>> {
        // Nothing panics between two changes of it that belong together.
        self.0.by_stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: View> Streams<V> {
    /// The view of a stream with everything that was in it at some moment after this call; `None` when that cannot be
    /// said, or as many streams are being read as there may be.
    pub(super) async fn read(&self, journal: &Arc<dyn StreamLog>, shard: Arc<Shard>, stream_id: StreamId) -> Option<V> {
        let reader = self.enter(&stream_id);
        let (journal, id) = (Arc::clone(journal), stream_id.clone());
        let ask = move || {
            let (journal, shard, id) = (Arc::clone(&journal), Arc::clone(&shard), id.clone());
            async move {
                let _permit = shard.streams.permit().await?;
                // At least as new as every append that was acknowledged before.
                let commits = timeout(STREAM_WAIT_MAX, journal.load(&id)).await.ok()?.ok()?;
                V::fold(&commits).map(Arc::new)
            }
        };
        let view = reader.flight.answer(STREAM_WAIT_MAX, ask).await?;
        Some(V::clone(&view))
    }

    fn enter<'a>(&'a self, stream_id: &'a StreamId) -> Reader<'a, V> {
        let mut streams = self.lock();
        let reading = streams.entry(stream_id.clone());
        let reading = reading
            .or_insert_with(|| Reading { flight: SingleFlight::new(self.0.runtime.clone(), STREAM_PACE), readers: 0 });
        reading.readers += 1;
        Reader { streams: self, stream_id, flight: reading.flight.clone() }
    }
}

impl<V> Drop for Reader<'_, V> {
    fn drop(&mut self) {
        if let hash_map::Entry::Occupied(mut reading) = self.streams.lock().entry(self.stream_id.clone()) {
            reading.get_mut().readers -= 1;
            if reading.get().readers == 0 {
                reading.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use tokio::{sync::Semaphore, time::Instant};

    use events::{CommitId, Epochs, PaymentEvent, PaymentId, event::TransactionAbandoned};
    use journal::{AppendError, Commit, Position, ReadError, Recorded, ShardLog, StreamStore, memory::MemoryJournal};

    use super::*;
    use crate::views::fresh::shard::STREAM_TURN_MAX;

    /// A journal that looks at a stream at once and tells what it saw when it is let.
    struct Gated {
        journal: MemoryJournal,
        looked: AtomicUsize,
        gate: Semaphore,
    }

    impl Gated {
        fn new() -> Arc<Self> {
            Arc::new(Self { journal: MemoryJournal::new(1), looked: AtomicUsize::new(0), gate: Semaphore::new(0) })
        }

        /// Returns when so many streams were looked at.
        async fn looked(&self, count: usize) {
            while self.looked.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        }

        async fn append(&self, stream_id: &StreamId) {
            let abandoned =
                TransactionAbandoned { attempt: 1, evidence: String::new(), abandoned_at: Default::default() };
            let commits = self.journal.load(stream_id).await.unwrap();
            let commit = Commit {
                stream_id: stream_id.clone(),
                expected: commits.last().map_or(Position::START, |last| last.position),
                commit_id: CommitId::random(),
                events: vec![PaymentEvent::DepositAbandoned(abandoned).into()],
                correlation: String::new(),
                causation: String::new(),
            };
            self.journal.append(&commit).await.unwrap();
        }
    }

    #[async_trait]
    impl StreamStore for Gated {
        async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
            self.journal.append(commit).await
        }

        async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
            let commits = self.journal.load(stream_id).await;
            self.looked.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
            commits
        }
    }

    #[async_trait]
    impl ShardLog for Gated {
        fn epochs(&self) -> Epochs {
            self.journal.epochs()
        }

        async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
            self.journal.replay(shard, from, limit).await
        }

        async fn head(&self, shard: u16) -> Result<u64, ReadError> {
            self.journal.head(shard).await
        }

        async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
            self.journal.wait_beyond(shard, sequence).await
        }
    }

    /// How many commits there are.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Count(usize);

    impl View for Count {
        fn fold(commits: &[Recorded]) -> Option<Self> {
            Some(Self(commits.len()))
        }

        fn is_at_rest(&self) -> bool {
            false
        }

        fn version(&self) -> u64 {
            self.0 as u64
        }
    }

    /// Readers of streams of one shard, of which so many are read at a time.
    struct Environment {
        gated: Arc<Gated>,
        shard: Arc<Shard>,
        streams: Streams<Count>,
    }

    impl Environment {
        fn new(permits: usize) -> Self {
            let runtime = Handle::current();
            let (shard, streams) = (Arc::new(Shard::new(&runtime, permits)), Streams::new(&runtime));
            Self { gated: Gated::new(), shard, streams }
        }

        fn read(&self, stream_id: &StreamId) -> tokio::task::JoinHandle<Option<Count>> {
            let journal: Arc<dyn StreamLog> = self.gated.clone();
            let (streams, shard, stream_id) = (self.streams.clone(), self.shard.clone(), stream_id.clone());
            tokio::spawn(async move { streams.read(&journal, shard, stream_id).await })
        }
    }

    fn stream(number: usize) -> StreamId {
        PaymentId::derive("somebody", &number.to_string()).into()
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_after_a_commit_is_never_given_what_was_read_before_it() {
        let environment = Environment::new(4);
        environment.gated.append(&stream(1)).await;
        let first = environment.read(&stream(1));
        environment.gated.looked(1).await;
        environment.gated.append(&stream(1)).await;
        let later: Vec<_> = (0..10).map(|_| environment.read(&stream(1))).collect();
        while environment.streams.lock().get(&stream(1)).unwrap().readers < 11 {
            tokio::task::yield_now().await;
        }
        environment.gated.gate.add_permits(2);
        assert_eq!(first.await.unwrap(), Some(Count(1)));
        for later in later {
            assert_eq!(later.await.unwrap(), Some(Count(2)));
        }
        assert_eq!(environment.gated.looked.load(Ordering::SeqCst), 2);
        // Nothing is kept of what nobody reads.
        assert!(environment.streams.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_streams_are_read_at_a_time_than_there_may_be() {
        let environment = Environment::new(2);
        let at_work = [environment.read(&stream(1)), environment.read(&stream(2))];
        environment.gated.looked(2).await;
        let waiting: Vec<_> = (3..11).map(|number| environment.read(&stream(number))).collect();
        while environment.shard.streams.free() != (0, 0) {
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        assert_eq!(environment.read(&stream(11)).await.unwrap(), None);
        assert_eq!(started.elapsed(), Duration::ZERO);
        // Another reader of one that is being read takes no permit.
        let shared = environment.read(&stream(1));
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), None);
        }
        assert_eq!(started.elapsed(), STREAM_TURN_MAX);
        assert_eq!(environment.gated.looked.load(Ordering::SeqCst), 2);
        environment.gated.gate.add_permits(3);
        for read in at_work.into_iter().chain([shared]) {
            assert_eq!(read.await.unwrap(), Some(Count(0)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_leaves_takes_nobody_elses_answer_away() {
        let environment = Environment::new(1);
        let first = environment.read(&stream(1));
        environment.gated.looked(1).await;
        let second = environment.read(&stream(1));
        while environment.streams.lock().get(&stream(1)).unwrap().readers < 2 {
            tokio::task::yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        environment.gated.gate.add_permits(2);
        assert_eq!(second.await.unwrap(), Some(Count(0)));
    }
}
