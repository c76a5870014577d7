//! Views that are never behind what anybody was told, while the read model lags behind the journal.

use std::{
    future::pending,
    sync::atomic::{AtomicU64, AtomicUsize},
};

use futures::future::join_all;
use projections::Projections;

use events::{
    Epochs, StreamId,
    event::TransactionAbandoned,
    journal::{AppendError, Commit, Journal, ReadError, Recorded, ShardWorker, memory::MemoryJournal},
};

use super::*;
use crate::http::CurrentViews;

const PATIENCE: Duration = Duration::from_secs(60);

/// A journal whose readers of whole shards see nothing beyond a limit, and whose head can be out of reach.
struct Lagging {
    journal: MemoryJournal,
    limit: AtomicU64,
    mute: AtomicBool,
    heads: AtomicUsize,
}

impl Lagging {
    fn new(journal: MemoryJournal) -> Arc<Self> {
        let (limit, mute, heads) = (AtomicU64::new(u64::MAX), AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Self { journal, limit, mute, heads })
    }
}

#[async_trait]
impl Journal for Lagging {
    fn epochs(&self) -> Epochs {
        self.journal.epochs()
    }

    async fn grown(&self, shards: u16) {
        self.journal.grown(shards).await;
    }

    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.journal.load(stream_id).await
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

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        tokio::time::timeout(Duration::from_millis(20), self.journal.wait_beyond(shard, sequence))
            .await
            .unwrap_or(Ok(()))
    }

    async fn work(&self, _: u16, _: &str) -> Box<dyn ShardWorker> {
        pending().await
    }
}

struct Follower {
    gateway: Gateway,
    journal: Arc<Lagging>,
    projections: Projections,
    views: CurrentViews,
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
        let views = CurrentViews::new(projections.clone(), journal.clone());
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
}

fn abandoned() -> PaymentEvent {
    let abandoned_at = at("2027-01-01T00:00:00Z");
    PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt: 1, evidence: String::new(), abandoned_at })
}

#[tokio::test]
async fn a_read_model_that_lags_is_waited_for_or_left_to_the_journal() {
    let follower = Follower::start();
    let id = follower.payment().await;
    assert_eq!(follower.version(&id).await, Ok(Some(1)));
    follower.halt(&id).await;
    follower.gateway.append(&id, vec![abandoned()]).await;
    // The read model by itself would show the past.
    assert_eq!(follower.projections.get(&id).unwrap().unwrap().version, 1);
    assert_eq!(
        follower.version(&id).await,
        Err(Unavailable::CatchingUp { shard: id.shard(follower.journal.shards()) })
    );
    let reading = follower.version(&id);
    let released = async { follower.journal.limit.store(u64::MAX, Ordering::SeqCst) };
    assert_eq!(tokio::join!(reading, released).0, Ok(Some(2)));
    // What nobody knows is not waited for: the journal is asked for it in any case.
    assert_eq!(follower.version(&PaymentId::derive("nobody", "1")).await, Ok(None));
}

#[tokio::test]
async fn the_stream_that_is_asked_is_the_one_in_which_the_payment_lies() {
    let follower = Follower::start();
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
