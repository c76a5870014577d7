//! Views that are never older than what anybody was told before, by this gateway or another.
//!
//! The read model follows the journal, so for a moment it may lack a commit that an answer was made from, somewhere else or
//! here. What may still change is therefore shown only once it is known to have everything that was in its stream when
//! the question came. There are two ways to know that. The shard is asked for its head, and the read model has got as
//! far: questions that come while that goes on share the next one, so that their number does not matter. Where this
//! takes longer than a moment, because a gateway under load has much to follow, the one stream in question is read
//! besides, and whichever is first answers: commits of other payments need not be waited for.
//!
//! While the journal does not answer, what the read model has is shown as it is.

use std::{
    collections::{HashMap, hash_map},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};

use events::{PaymentId, QuoteRequestId, StreamId};
use journal::{Journal, Recorded};
use projections::{Located, PaymentView, Projections, QuoteRequestView, Unavailable};

use super::{payments::Payments, quote_requests::QuoteRequests};
use crate::{admission::line::Line, views::single_flight::Shared};

/// How long a shard may take to tell its head.
const HEAD_WAIT_MAX: Duration = Duration::from_millis(800);
/// How long a shard that did not is not asked again.
const AWAY: Duration = Duration::from_secs(1);
/// Least time between two questions to one shard.
const PACE: Duration = Duration::from_millis(2);
/// How long the read model may take to get as far as its shard; after that the journal is read instead.
const CATCH_UP_MAX: Duration = Duration::from_secs(1);
/// How long head and read model are waited for before the stream itself is read besides. Without load they take a few
/// milliseconds and cost next to nothing.
const READ_MODEL_ALONE: Duration = Duration::from_millis(20);
/// Streams of all shards that are read at a time. No shard has more than twice its share, and four times that in line.
const STREAMS_MAX: usize = 128;
/// Least number of them for one shard.
const STREAMS_MIN: usize = 8;
const STREAM_TURN_MAX: Duration = Duration::from_millis(250);
/// How long the reading of one stream may take.
const STREAM_WAIT_MAX: Duration = Duration::from_secs(2);
/// Least time between two readings of one stream.
const STREAM_PACE: Duration = Duration::from_millis(5);

/// The read model, never behind what anybody was told. Cheap to clone.
#[derive(Clone)]
pub struct CurrentViews {
    projections: Projections,
    journal: Arc<dyn Journal>,
    runtime: Handle,
    /// Those from 0 on, as many as were asked for so far.
    shards: Arc<RwLock<Vec<Arc<Shard>>>>,
    payments: Streams<PaymentView>,
    quote_requests: Streams<QuoteRequestView>,
}

/// What the read model has of the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Everything that was in it when that was asked.
    Current,
    /// Less than that.
    Behind,
    /// Nobody can say.
    Unknown,
}

/// A view of one kind of stream.
trait View: Clone + Send + Sync + Sized + 'static {
    fn fold(commits: &[Recorded]) -> Option<Self>;

    /// Whether nothing that is shown of it will ever change.
    fn is_settled(&self) -> bool;
}

impl View for PaymentView {
    fn fold(commits: &[Recorded]) -> Option<Self> {
        Self::fold(commits)
    }

    fn is_settled(&self) -> bool {
        self.at_rest
    }
}

impl View for QuoteRequestView {
    fn fold(commits: &[Recorded]) -> Option<Self> {
        Self::fold(commits)
    }

    fn is_settled(&self) -> bool {
        self.award.is_some()
    }
}

impl CurrentViews {
    /// The views of `projections`, which follow the journal that `journal` reads, on `runtime`. Under load both are
    /// best used for little else: what readers ask for must not wait behind what writers bring.
    pub fn new(projections: Projections, journal: Arc<dyn Journal>, runtime: Handle) -> Self {
        let (payments, quote_requests) = (Streams::new(&runtime), Streams::new(&runtime));
        Self { projections, journal, runtime, shards: Arc::default(), payments, quote_requests }
    }

    fn shard(&self, shard: u16) -> Arc<Shard> {
        let index = usize::from(shard);
        if let Some(shard) = self.shards.read().unwrap_or_else(PoisonError::into_inner).get(index) {
            return Arc::clone(shard);
        }
        // Shards are only ever added, one by one.
        let mut shards = self.shards.write().unwrap_or_else(PoisonError::into_inner);
        let places = streams_of(usize::from(self.journal.epochs().current().shards));
        let count = shards.len().max(index + 1);
        shards.resize_with(count, || Arc::new(Shard::new(&self.runtime, places)));
        Arc::clone(&shards[index])
    }

    async fn standing(&self, shard: u16) -> Standing {
        match self.shard(shard).head(&self.journal, shard).await {
            None => Standing::Unknown,
            Some(head) if self.projections.wait_for(shard, head, CATCH_UP_MAX).await => Standing::Current,
            Some(_) => Standing::Behind,
        }
    }

    /// The view that `read` finds, once it is current or settled, or that of the stream itself.
    async fn current<V: View>(
        &self,
        streams: &Streams<V>,
        stream_id: StreamId,
        read: impl Fn() -> Result<Option<Located<V>>, Unavailable>,
    ) -> Result<Option<V>, Unavailable> {
        let known = match read()? {
            Some(known) if !known.view.is_settled() => known,
            // What is not known the journal is asked for anyway.
            known => return Ok(known.map(|known| known.view)),
        };
        // A stream stays in the shard in which it began.
        let shard = known.shard;
        let from_stream = async {
            sleep(READ_MODEL_ALONE).await;
            streams.read(&self.journal, self.shard(shard), stream_id).await
        };
        let standing = async {
            let standing = self.standing(shard).await;
            if standing == Standing::Unknown {
                // The head may be out of reach where the stream is not, and others were told what stands there.
                sleep(STREAM_TURN_MAX).await;
            }
            standing
        };
        let standing = tokio::select! {
            standing = standing => standing,
            Some(view) = from_stream => return Ok(Some(view)),
        };
        match standing {
            Standing::Current => Ok(read()?.map(|known| known.view)),
            Standing::Behind => Err(Unavailable::CatchingUp { shard }),
            Standing::Unknown => Ok(read().ok().flatten().map(|known| known.view).or(Some(known.view))),
        }
    }
}

#[async_trait]
impl Payments for CurrentViews {
    async fn view(&self, payment_id: &PaymentId) -> Result<Option<PaymentView>, Unavailable> {
        self.current(&self.payments, payment_id.into(), || self.projections.find(payment_id)).await
    }

    async fn changed(&self, payment_id: &PaymentId, seen_version: u64, wait_max: Duration) -> Option<PaymentView> {
        self.projections.changed(payment_id, seen_version, wait_max).await
    }
}

#[async_trait]
impl QuoteRequests for CurrentViews {
    async fn view(&self, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Unavailable> {
        self.current(&self.quote_requests, id.into(), || self.projections.find_quote_request(id)).await
    }

    fn collecting(&self) -> usize {
        self.projections.open_quote_requests()
    }

    fn is_collecting(&self, id: &QuoteRequestId) -> Option<bool> {
        self.projections.quote_request_is_open(id)
    }

    async fn changed(&self, id: &QuoteRequestId, seen_version: u64, wait_max: Duration) -> Option<QuoteRequestView> {
        self.projections.quote_request_changed(id, seen_version, wait_max).await
    }
}

/// Streams of one of so many shards that are read at a time: twice its share.
fn streams_of(shards: usize) -> usize {
    (2 * STREAMS_MAX).div_ceil(shards.max(1)).max(STREAMS_MIN)
}

/// What is asked of one shard.
struct Shard {
    head: Shared<u64>,
    away_until: Mutex<Option<Instant>>,
    /// Its streams that are being read.
    streams: Line,
}

impl Shard {
    fn new(runtime: &Handle, places: usize) -> Self {
        let streams = Line::new(places, 4 * places, STREAM_TURN_MAX);
        Self { head: Shared::new(runtime.clone(), PACE), away_until: Mutex::default(), streams }
    }

    /// The head as it is at some moment after this call; `None` while the shard does not answer.
    async fn head(self: Arc<Self>, journal: &Arc<dyn Journal>, shard: u16) -> Option<u64> {
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

/// Streams that are being read. Who asks for the same one at the same time shares the reading.
struct Streams<V>(Arc<Readings<V>>);

struct Readings<V> {
    runtime: Handle,
    by_stream: Mutex<HashMap<StreamId, Reading<V>>>,
}

struct Reading<V> {
    shared: Shared<Arc<V>>,
    readers: usize,
}

/// One who waits for a reading, until dropped.
struct Reader<'a, V> {
    streams: &'a Streams<V>,
    stream_id: &'a StreamId,
    shared: Shared<Arc<V>>,
}

impl<V> Clone for Streams<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V> Streams<V> {
    fn new(runtime: &Handle) -> Self {
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
    async fn read(&self, journal: &Arc<dyn Journal>, shard: Arc<Shard>, stream_id: StreamId) -> Option<V> {
        let reader = self.enter(&stream_id);
        let (journal, id) = (Arc::clone(journal), stream_id.clone());
        let ask = move || {
            let (journal, shard, id) = (Arc::clone(&journal), Arc::clone(&shard), id.clone());
            async move {
                let _place = shard.streams.place().await?;
                // At least as new as every append that was acknowledged before.
                let commits = timeout(STREAM_WAIT_MAX, journal.load(&id)).await.ok()?.ok()?;
                V::fold(&commits).map(Arc::new)
            }
        };
        let view = reader.shared.answer(STREAM_WAIT_MAX, ask).await?;
        Some(V::clone(&view))
    }

    fn enter<'a>(&'a self, stream_id: &'a StreamId) -> Reader<'a, V> {
        let mut streams = self.lock();
        let reading = streams.entry(stream_id.clone());
        let reading =
            reading.or_insert_with(|| Reading { shared: Shared::new(self.0.runtime.clone(), STREAM_PACE), readers: 0 });
        reading.readers += 1;
        Reader { streams: self, stream_id, shared: reading.shared.clone() }
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

    use events::{CommitId, Epochs, PaymentEvent, event::TransactionAbandoned};
    use journal::{AppendError, Commit, Position, ReadError, ShardLeases, ShardWorker, memory::MemoryJournal};
    use tokio::sync::Semaphore;

    use super::*;
    use journal::{ShardLog, StreamStore};

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

    #[async_trait]
    impl ShardLeases for Gated {
        async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
            self.journal.work(shard, owner).await
        }
    }

    /// How many commits there are.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Count(usize);

    impl View for Count {
        fn fold(commits: &[Recorded]) -> Option<Self> {
            Some(Self(commits.len()))
        }

        fn is_settled(&self) -> bool {
            false
        }
    }

    /// Readers of streams of one shard, of which so many are read at a time.
    struct Stage {
        gated: Arc<Gated>,
        shard: Arc<Shard>,
        streams: Streams<Count>,
    }

    impl Stage {
        fn set(places: usize) -> Self {
            let runtime = Handle::current();
            let (shard, streams) = (Arc::new(Shard::new(&runtime, places)), Streams::new(&runtime));
            Self { gated: Gated::new(), shard, streams }
        }

        fn read(&self, stream_id: &StreamId) -> tokio::task::JoinHandle<Option<Count>> {
            let journal: Arc<dyn Journal> = self.gated.clone();
            let (streams, shard, stream_id) = (self.streams.clone(), self.shard.clone(), stream_id.clone());
            tokio::spawn(async move { streams.read(&journal, shard, stream_id).await })
        }
    }

    fn stream(number: usize) -> StreamId {
        PaymentId::derive("somebody", &number.to_string()).into()
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_after_a_commit_is_never_given_what_was_read_before_it() {
        let stage = Stage::set(4);
        stage.gated.append(&stream(1)).await;
        let first = stage.read(&stream(1));
        stage.gated.looked(1).await;
        stage.gated.append(&stream(1)).await;
        let later: Vec<_> = (0..10).map(|_| stage.read(&stream(1))).collect();
        while stage.streams.lock().get(&stream(1)).unwrap().readers < 11 {
            tokio::task::yield_now().await;
        }
        stage.gated.gate.add_permits(2);
        assert_eq!(first.await.unwrap(), Some(Count(1)));
        for later in later {
            assert_eq!(later.await.unwrap(), Some(Count(2)));
        }
        assert_eq!(stage.gated.looked.load(Ordering::SeqCst), 2);
        // Nothing is kept of what nobody reads.
        assert!(stage.streams.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_streams_are_read_at_a_time_than_there_may_be() {
        let stage = Stage::set(2);
        let at_work = [stage.read(&stream(1)), stage.read(&stream(2))];
        stage.gated.looked(2).await;
        let waiting: Vec<_> = (3..11).map(|number| stage.read(&stream(number))).collect();
        while stage.shard.streams.free() != (0, 0) {
            tokio::task::yield_now().await;
        }
        let started = Instant::now();
        assert_eq!(stage.read(&stream(11)).await.unwrap(), None);
        assert_eq!(started.elapsed(), Duration::ZERO);
        // Another reader of one that is being read takes no place.
        let shared = stage.read(&stream(1));
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), None);
        }
        assert_eq!(started.elapsed(), STREAM_TURN_MAX);
        assert_eq!(stage.gated.looked.load(Ordering::SeqCst), 2);
        stage.gated.gate.add_permits(3);
        for read in at_work.into_iter().chain([shared]) {
            assert_eq!(read.await.unwrap(), Some(Count(0)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_leaves_takes_nobody_elses_answer_away() {
        let stage = Stage::set(1);
        let first = stage.read(&stream(1));
        stage.gated.looked(1).await;
        let second = stage.read(&stream(1));
        while stage.streams.lock().get(&stream(1)).unwrap().readers < 2 {
            tokio::task::yield_now().await;
        }
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        stage.gated.gate.add_permits(2);
        assert_eq!(second.await.unwrap(), Some(Count(0)));
    }
}
