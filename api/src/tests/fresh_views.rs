//! Fresh views: they are never behind what anybody was told, while the read model lags behind the journal.

use std::{
    future::pending,
    sync::atomic::{AtomicU64, AtomicUsize},
};

use futures::future::join_all;

use app::views::{fresh::FreshViews, quote_requests::QuoteRequests};
use events::{Epochs, StreamId, event::TransactionAbandoned};
use journal::{
    AppendError, Commit, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, memory::MemoryJournal,
};
use projections::Projections;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A journal whose readers of whole shards see nothing beyond a limit, and whose head and streams can be out of reach.
struct Lagging {
    journal: MemoryJournal,
    limit: AtomicU64,
    mute: AtomicBool,
    heads: AtomicUsize,
    silent: AtomicBool,
    loads: AtomicUsize,
    /// What it says that it knows of any shard without looking.
    known: Mutex<Option<u64>>,
}

impl Lagging {
    fn new(journal: MemoryJournal) -> Arc<Self> {
        let (limit, mute, heads) = (AtomicU64::new(u64::MAX), AtomicBool::new(false), AtomicUsize::new(0));
        let (silent, loads) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Self { journal, limit, mute, heads, silent, loads, known: Mutex::default() })
    }
}

#[async_trait]
impl StreamStore for Lagging {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        if self.silent.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
        let commits = self.journal.load(stream_id).await;
        // As an answer over a network, it takes a moment, in which it grows old.
        tokio::time::sleep(Duration::from_millis(20)).await;
        commits
    }
}

#[async_trait]
impl ShardLog for Lagging {
    fn epochs(&self) -> Epochs {
        self.journal.epochs()
    }

    async fn grown(&self, shards: u16) {
        self.journal.grown(shards).await;
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        let mut page = self.journal.replay(shard, from, limit).await?;
        page.retain(|recorded| recorded.position.sequence <= self.limit.load(Ordering::SeqCst));
        Ok(page)
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.heads.fetch_add(1, Ordering::SeqCst);
        if self.mute.load(Ordering::SeqCst) {
            return Err(ReadError::Unavailable("switched off".to_owned()));
        }
        // As an answer over a network, it takes a moment.
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.journal.head(shard).await
    }

    fn known_head(&self, _: u16) -> Option<u64> {
        *self.known.lock().unwrap()
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        tokio::time::timeout(Duration::from_millis(20), self.journal.wait_beyond(shard, sequence))
            .await
            .unwrap_or(Ok(()))
    }
}

#[async_trait]
impl ShardLeases for Lagging {
    async fn work(&self, _: u16, _: &str) -> Box<dyn ShardWorker> {
        pending().await
    }
}

struct Follower {
    gateway: Gateway,
    journal: Arc<Lagging>,
    projections: Projections,
    views: FreshViews,
    _directory: tempfile::TempDir,
}

impl Follower {
    fn start() -> Self {
        let (gateway, directory) = (Gateway::new(), tempfile::tempdir().unwrap());
        let journal = Lagging::new(gateway.journal.clone());
        let projections = Projections::open(directory.path(), journal.shards()).unwrap();
        let followed = projections.clone();
        let follow = (journal.clone(), CancellationToken::new());
        tokio::spawn(async move { followed.run(follow.0, follow.1).await });
        let runtime = tokio::runtime::Handle::current();
        let views = FreshViews::new(projections.clone(), journal.clone(), journal.clone(), runtime);
        Self { gateway, journal, projections, views, _directory: directory }
    }

    /// A payment that the read model shows.
    async fn payment(&self) -> PaymentId {
        self.payment_of(&body()).await
    }

    async fn payment_of(&self, body: &Value) -> PaymentId {
        let id = self.gateway.post(body).await.expect(200).payment_id();
        let shown = async {
            while !matches!(self.projections.get(&id), Ok(Some(_))) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, shown).await.unwrap();
        id
    }

    /// Stops the read model where it is in the payment's shard, which is returned.
    async fn halt(&self, id: &PaymentId) -> u16 {
        let shard = self.gateway.journal.load(&id.into()).await.unwrap()[0].position.shard;
        let head = self.journal.journal.head(shard).await.unwrap();
        self.journal.limit.store(head, Ordering::SeqCst);
        shard
    }

    async fn version(&self, id: &PaymentId) -> Result<Option<u64>, Unavailable> {
        Ok(Payments::view(&self.views, id).await?.map(|view| view.version))
    }

    async fn recent(&self, id: &PaymentId, seen: u64) -> Result<Option<u64>, Unavailable> {
        Ok(Payments::recent(&self.views, id, seen).await?.map(|view| view.version))
    }

    fn knows(&self, head: u64) {
        *self.journal.known.lock().unwrap() = Some(head);
    }
}

fn abandoned() -> PaymentEvent {
    let abandoned_at = at("2027-01-01T00:00:00Z");
    PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt: 1, evidence: String::new(), abandoned_at })
}

#[tokio::test]
async fn what_a_read_model_that_lags_does_not_have_is_read_from_its_own_stream() {
    let follower = Follower::start();
    let id = follower.payment().await;
    assert_eq!(follower.version(&id).await, Ok(Some(1)));
    follower.halt(&id).await;
    follower.gateway.append(&id, vec![abandoned()]).await;
    assert_eq!(follower.version(&id).await, Ok(Some(2)));
    // The read model by itself would still show the past.
    assert_eq!(follower.projections.get(&id).unwrap().unwrap().version, 1);
    // What nobody knows is not waited for: the journal is asked for it in any case.
    assert_eq!(follower.version(&PaymentId::derive("nobody", "1")).await, Ok(None));
}

#[tokio::test]
async fn a_stream_that_does_not_answer_is_left_for_the_read_model_and_then_to_the_caller() {
    let follower = Follower::start();
    let id = follower.payment().await;
    let shard = follower.halt(&id).await;
    follower.gateway.append(&id, vec![abandoned()]).await;
    follower.journal.silent.store(true, Ordering::SeqCst);
    assert_eq!(follower.version(&id).await, Err(Unavailable::CatchingUp { shard }));
    let reading = follower.version(&id);
    let released = async { follower.journal.limit.store(u64::MAX, Ordering::SeqCst) };
    assert_eq!(tokio::join!(reading, released).0, Ok(Some(2)));
}

#[tokio::test]
async fn a_batch_that_the_read_model_does_not_have_yet_is_read_from_its_own_stream() {
    let follower = Follower::start();
    let id = quote_requests::open(&follower.gateway, &quote_requests::quote_request()).await;
    let shown = async {
        while !matches!(follower.projections.get_quote_request(&id), Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, shown).await.unwrap();
    let view = async || QuoteRequests::view(&follower.views, &id).await.unwrap().unwrap();
    assert_eq!(view().await.quotes, None);
    let head = follower.journal.journal.head(id.shard(4)).await.unwrap();
    follower.journal.limit.store(head, Ordering::SeqCst);
    quote_requests::collect(&follower.gateway, &id, &[1, 2]).await;
    assert_eq!(view().await.quotes.map(|quotes| quotes.len()), Some(2));
    assert_eq!(follower.projections.get_quote_request(&id).unwrap().unwrap().version, 1);
}

#[tokio::test]
async fn many_readers_of_a_stream_share_its_reading_and_none_gets_an_old_answer() {
    let follower = Follower::start();
    let id = follower.payment().await;
    follower.halt(&id).await;
    for round in 2..6 {
        follower.gateway.append(&id, vec![abandoned()]).await;
        let read = join_all((0..500).map(|_| follower.version(&id))).await;
        assert!(read.iter().all(|version| *version == Ok(Some(round))), "{read:?}");
    }
    let loads = follower.journal.loads.load(Ordering::SeqCst);
    assert!((4..100).contains(&loads), "2000 readers read {loads} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_shown_less_than_anybody_was_told_before() {
    const COMMITS: u64 = 60;
    let follower = Follower::start();
    let id = follower.payment().await;
    // The newest version that anybody was told of.
    let told = AtomicU64::new(1);
    let writes = async {
        for version in 2..=COMMITS {
            // The read model is held up, and let go, and held up again.
            if version % 3 == 0 {
                follower.halt(&id).await;
            } else if version % 3 == 1 {
                follower.journal.limit.store(u64::MAX, Ordering::SeqCst);
            }
            follower.gateway.append(&id, vec![abandoned()]).await;
            told.fetch_max(version, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(version % 30)).await;
        }
    };
    let reads = (0..8).map(|_| async {
        while told.load(Ordering::SeqCst) < COMMITS {
            let before = told.load(Ordering::SeqCst);
            let shown = follower.version(&id).await.unwrap().unwrap();
            assert!(shown >= before, "{shown} was shown after {before} had been told");
            told.fetch_max(shown, Ordering::SeqCst);
        }
    });
    tokio::time::timeout(PATIENCE, async { tokio::join!(writes, join_all(reads)) }).await.unwrap();
    assert!(follower.journal.loads.load(Ordering::SeqCst) > 0, "the read model was never behind");
}

#[tokio::test]
async fn the_stream_that_is_asked_is_the_one_in_which_the_payment_lies() {
    let follower = Follower::start();
    follower.journal.silent.store(true, Ordering::SeqCst);
    let old = follower.payment().await;
    follower.gateway.journal.rotate(6);
    let mut body = body();
    body["request_id"] = "order-2".into();
    let new = follower.payment_of(&body).await;
    for id in [&old, &new] {
        assert_eq!(follower.version(id).await, Ok(Some(1)));
        let shard = follower.halt(id).await;
        assert_eq!(shard >= 4, id == &new);
        follower.gateway.append(id, vec![abandoned()]).await;
        assert_eq!(follower.version(id).await, Err(Unavailable::CatchingUp { shard }));
        follower.journal.silent.store(false, Ordering::SeqCst);
        assert_eq!(follower.version(id).await, Ok(Some(2)));
        follower.journal.silent.store(true, Ordering::SeqCst);
        follower.journal.limit.store(u64::MAX, Ordering::SeqCst);
        assert_eq!(follower.version(id).await, Ok(Some(2)));
    }
}

#[tokio::test]
async fn while_the_journal_is_away_what_is_known_is_shown() {
    let follower = Follower::start();
    let id = follower.payment().await;
    follower.journal.mute.store(true, Ordering::SeqCst);
    assert_eq!(follower.version(&id).await, Ok(Some(1)));
    // And it is not asked again for every reader.
    let asked = follower.journal.heads.load(Ordering::SeqCst);
    for _ in 0..100 {
        assert_eq!(follower.version(&id).await, Ok(Some(1)));
    }
    let followers_own = 100;
    assert!(follower.journal.heads.load(Ordering::SeqCst) - asked < followers_own);
}

#[tokio::test]
async fn many_readers_share_a_question_and_none_gets_an_old_answer() {
    let follower = Follower::start();
    let id = follower.payment().await;
    let asked = follower.journal.heads.load(Ordering::SeqCst);
    for round in 2..6 {
        follower.gateway.append(&id, vec![abandoned()]).await;
        let read = join_all((0..500).map(|_| follower.version(&id))).await;
        assert!(read.iter().all(|version| *version == Ok(Some(round))), "{read:?}");
    }
    let asked = follower.journal.heads.load(Ordering::SeqCst) - asked;
    assert!(asked < 500, "2000 readers asked {asked} times");
}

/// How old a recent view may be.
const AGE_MAX: Duration = Duration::from_millis(200);

/// What another gateway wrote, and no hint told of, is shown to who has seen it at once, and to everybody once the age is over.
#[tokio::test]
async fn a_recent_view_has_what_its_reader_has_seen_and_is_never_older_than_its_bound() {
    let follower = Follower::start();
    let id = follower.payment().await;
    follower.knows(0);
    assert_eq!(follower.recent(&id, 0).await, Ok(Some(1)));
    follower.halt(&id).await;
    follower.gateway.append(&id, vec![abandoned()]).await;
    let written = tokio::time::Instant::now();
    loop {
        let asked = written.elapsed();
        match follower.recent(&id, 0).await {
            Ok(Some(1)) => assert!(asked <= AGE_MAX, "{asked:?}"),
            Ok(Some(2)) => break,
            other => panic!("{other:?}"),
        }
        tokio::task::yield_now().await;
    }
    follower.gateway.append(&id, vec![abandoned()]).await;
    assert_eq!(follower.recent(&id, 3).await, Ok(Some(3)));
    assert_eq!(follower.projections.get(&id).unwrap().unwrap().version, 1, "the read model has none of it");
    // A position from elsewhere harms nobody.
    assert_eq!(follower.recent(&id, 1_000_000).await, Ok(Some(3)));
    assert_eq!(follower.recent(&PaymentId::derive("nobody", "1"), 1).await, Ok(None));
}

#[tokio::test]
async fn a_recent_view_has_what_this_gateway_knows_of_without_asking() {
    let follower = Follower::start();
    let id = follower.payment().await;
    follower.knows(0);
    assert_eq!(follower.recent(&id, 0).await, Ok(Some(1)));
    let shard = follower.halt(&id).await;
    follower.gateway.append(&id, vec![abandoned()]).await;
    // As its own append does, or a hint.
    follower.knows(follower.journal.journal.head(shard).await.unwrap());
    assert_eq!(follower.recent(&id, 0).await, Ok(Some(2)));
    assert_eq!(follower.projections.get(&id).unwrap().unwrap().version, 1, "the read model does not have it");
    // A hint that is not true costs a question, and nothing is held back for it.
    follower.knows(1_000_000);
    follower.journal.limit.store(u64::MAX, Ordering::SeqCst);
    assert_eq!(follower.recent(&id, 0).await, Ok(Some(2)));
}

#[tokio::test]
async fn readers_of_recent_views_ask_as_often_as_the_bound_needs_however_many_they_are() {
    let follower = Follower::start();
    let id = follower.payment().await;
    follower.knows(0);
    assert_eq!(follower.recent(&id, 0).await, Ok(Some(1)));
    let (asked, started) = (follower.journal.heads.load(Ordering::SeqCst), tokio::time::Instant::now());
    let mut reads = 0_u32;
    while started.elapsed() < AGE_MAX * 5 {
        assert_eq!(follower.recent(&id, 1).await, Ok(Some(1)));
        reads += 1;
        // Answered without waiting for anything, it would leave nothing else its turn.
        tokio::task::yield_now().await;
    }
    let (asked, elapsed) = (follower.journal.heads.load(Ordering::SeqCst) - asked, started.elapsed());
    // The followers of four shards look, too, whenever they find nothing new, at most every 20 ms.
    let bound = elapsed.as_millis() / 100 + 1 + 4 * (elapsed.as_millis() / 20 + 1);
    assert!(
        u128::from(reads) > bound && (asked as u128) <= bound,
        "{reads} readers asked {asked} times in {elapsed:?}"
    );
}

#[tokio::test]
async fn while_the_journal_is_away_nobody_is_shown_less_than_he_has_seen() {
    let follower = Follower::start();
    let id = follower.payment().await;
    follower.knows(0);
    let shard = follower.halt(&id).await;
    follower.gateway.append(&id, vec![abandoned()]).await;
    follower.journal.mute.store(true, Ordering::SeqCst);
    follower.journal.silent.store(true, Ordering::SeqCst);
    assert_eq!(follower.recent(&id, 0).await, Ok(Some(1)));
    assert_eq!(follower.recent(&id, 2).await, Err(Unavailable::CatchingUp { shard }));
}

#[tokio::test]
async fn a_position_is_told_with_an_answer_and_taken_back() {
    let gateway = Gateway::new();
    let answer = gateway.post(&body()).await.expect(200);
    assert_eq!(answer.headers["x-position"], "1");
    let id = answer.payment_id();
    gateway.append(&id, vec![abandoned()]).await;
    let read = async |positions: &[&str]| {
        let mut request = Request::get(format!("/v1/payments/{id}/status"));
        for position in positions {
            request = request.header("x-position", *position);
        }
        gateway.send(request.body(Body::empty()).unwrap()).await
    };
    for positions in [&[][..], &["1"], &["2"], &["0"], &["999999999999999"]] {
        assert_eq!(read(positions).await.expect(200).headers["x-position"], "2", "{positions:?}");
    }
    for positions in [&[""][..], &["-1"], &["+1"], &["1.0"], &["one"], &["1000000000000000"], &["1", "2"]] {
        read(positions).await.expect_error(400, "INVALID_REQUEST");
    }
    // A replay is an answer like any other.
    assert_eq!(gateway.post(&body()).await.expect(200).headers["x-position"], "2");
}
