//! Wake-up dedup: a worker loads a stream for its news alone, and no commit of anybody else gets lost among the wake-ups that
//! it skips.

use std::time::Duration;

use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use journal::{ShardLeases, ShardLog, StreamStore, WakeUp};

use super::*;

/// Far longer than anything here takes; a test that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A journal with one shard, whose wake-ups come as the test says, and whose streams' loads are counted.
struct TestJournal {
    world: Arc<World>,
    journal: MemoryJournal,
    wake_ups: Mutex<Option<mpsc::UnboundedReceiver<WakeUp>>>,
    loads: Mutex<BTreeMap<StreamId, u32>>,
    /// What was loaded is handed out once this is false.
    holds_loads: watch::Sender<bool>,
    /// Quotes are there once this is false.
    holds_quotes: watch::Sender<bool>,
}

struct Scripted(mpsc::UnboundedReceiver<WakeUp>);

#[async_trait]
impl ShardWorker for Scripted {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        match self.0.recv().await {
            Some(wake_up) => Ok(wake_up),
            None => std::future::pending().await,
        }
    }

    async fn release(self: Box<Self>) {}
}

#[async_trait]
impl StreamStore for TestJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        let loaded = self.journal.load(stream_id).await;
        *self.loads.lock().unwrap().entry(stream_id.clone()).or_default() += 1;
        let _ = self.holds_loads.subscribe().wait_for(|holds| !holds).await;
        loaded
    }
}

#[async_trait]
impl ShardLog for TestJournal {
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
impl ShardLeases for TestJournal {
    async fn work(&self, _: u16, _: &str) -> Box<dyn ShardWorker> {
        Box::new(Scripted(self.wake_ups.lock().unwrap().take().unwrap()))
    }
}

#[async_trait]
impl Auction for TestJournal {
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        let _ = self.holds_quotes.subscribe().wait_for(|holds| !holds).await;
        self.world.gather(request).await
    }

    async fn award(&self, award: &Award) -> Result<(), Transient> {
        self.world.award(award).await
    }

    async fn answer(&self, award: &Award) -> Result<AwardAnswer, Transient> {
        self.world.answer(award).await
    }

    async fn over(&self, over: &AuctionOver) {
        self.world.over(over).await;
    }

    async fn end(&self, end: &AwardEnd) -> Result<(), Transient> {
        self.world.end(end).await
    }
}

#[async_trait]
impl OpenStreams for TestJournal {
    async fn open_streams(&self, _: u16, _: u64) -> Result<Vec<StreamId>, Transient> {
        Ok(Vec::new())
    }
}

/// A worker that owns the shard of a journal, and a batch in it.
struct Scene {
    journal: Arc<TestJournal>,
    tell: mpsc::UnboundedSender<WakeUp>,
    batch: StreamId,
    shutdown: CancellationToken,
    runner: JoinHandle<()>,
    marks: AtomicU32,
}

impl Scene {
    async fn begin() -> Self {
        let (tell, wake_ups) = mpsc::unbounded_channel();
        let world = Arc::new(World::new(Plot::Delivers));
        let journal = Arc::new(TestJournal {
            world: world.clone(),
            journal: MemoryJournal::new(1),
            wake_ups: Mutex::new(Some(wake_ups)),
            loads: Mutex::default(),
            holds_loads: watch::Sender::new(false),
            holds_quotes: watch::Sender::new(false),
        });
        let ports = Ports {
            journal: journal.clone(),
            auction: journal.clone(),
            open_streams: journal.clone(),
            chains: world.clone(),
            selector: world.clone(),
            verifier: world.clone(),
            parking: Arc::new(MemoryParking::default()),
            clock: world,
        };
        let shutdown = CancellationToken::new();
        let runner = Runner::new(Engine::new(ports, Options::default()), "one".to_owned());
        let runner = tokio::spawn(runner.run(shutdown.clone()));
        let batch = StreamId::from(batch::batch_id());
        let scene = Self { journal, tell, batch, shutdown, runner, marks: AtomicU32::default() };
        scene.say(WakeUp::Acquired);
        scene
    }

    fn say(&self, wake_up: WakeUp) {
        self.tell.send(wake_up).unwrap();
    }

    fn wake(&self, sequence: u64) {
        self.say(WakeUp::Event { stream_id: self.batch.clone(), sequence });
    }

    /// Appends as another process does; the commit's sequence.
    async fn append(&self, event: QuoteRequestEvent) -> u64 {
        batch::append(&self.journal.journal, self.batch.clone(), vec![event.into()]).await;
        self.journal.journal.head(0).await.unwrap()
    }

    async fn appends_awarded(&self) -> u64 {
        let quote = batch::batch_quote(1, "1010").id();
        self.append(batch::batch_awarded(quote, PaymentId::derive("tests", "award"))).await
    }

    fn loads_of(&self, stream_id: &StreamId) -> u32 {
        self.journal.loads.lock().unwrap().get(stream_id).copied().unwrap_or_default()
    }

    fn loads(&self) -> u32 {
        self.loads_of(&self.batch)
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let polled = async {
            while !holds().await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, polled).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
    }

    /// Returns once the worker has dealt with everything that was said before, and with what its tasks came to.
    async fn dealt_with(&self) {
        // Twice: what the first one finds may start another task.
        for _ in 0..2 {
            let number = self.marks.fetch_add(1, Ordering::SeqCst);
            let nobody = StreamId::from(PaymentId::derive("nobody", &number.to_string()));
            self.say(WakeUp::Event { stream_id: nobody.clone(), sequence: 0 });
            self.until("the worker gets to the mark", async || self.loads_of(&nobody) == 1).await;
        }
    }

    /// Brings the batch to rest: its first commit is somebody else's, the second the worker's. The sequence of the
    /// second.
    async fn comes_to_rest(&self) -> u64 {
        let first = self.append(batch::opened()).await;
        self.wake(first);
        self.until("the quotes are collected", async || self.journal.journal.head(0).await.unwrap() > first).await;
        self.dealt_with().await;
        assert_eq!(self.loads(), 1);
        first + 1
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.runner.await.unwrap();
    }
}

#[tokio::test]
async fn a_worker_does_not_load_what_it_wrote_itself() {
    let scene = Scene::begin().await;
    let newest = scene.comes_to_rest().await;
    // As often as they are delivered, and in whatever order.
    for sequence in [newest, newest - 1, newest] {
        scene.wake(sequence);
    }
    scene.dealt_with().await;
    assert_eq!(scene.loads(), 1);
    scene.end().await;
}

#[tokio::test]
async fn somebody_elses_commit_behind_a_stream_at_rest_is_loaded() {
    let scene = Scene::begin().await;
    let newest = scene.comes_to_rest().await;
    let awarded = scene.appends_awarded().await;
    // The worker's own comes only now.
    scene.wake(newest);
    scene.wake(awarded);
    scene.dealt_with().await;
    assert_eq!(scene.loads(), 2);
    // Now that is known, too.
    scene.wake(awarded);
    scene.dealt_with().await;
    assert_eq!(scene.loads(), 2);
    scene.end().await;
}

#[tokio::test]
async fn somebody_elses_commit_that_a_drive_missed_is_loaded_after_it() {
    let scene = Scene::begin().await;
    scene.append(batch::opened()).await;
    let collected = scene.append(batch::collected()).await;
    scene.journal.holds_loads.send_replace(true);
    scene.wake(collected);
    scene.until("the batch is loaded", async || scene.loads() == 1).await;
    // Between what was loaded and the end of the drive, which sees nothing to do.
    let awarded = scene.appends_awarded().await;
    scene.wake(awarded);
    let nobody = StreamId::from(PaymentId::derive("nobody", "held"));
    scene.say(WakeUp::Event { stream_id: nobody.clone(), sequence: 0 });
    scene.until("the worker has heard of it", async || scene.loads_of(&nobody) == 1).await;
    assert_eq!(scene.loads(), 1);
    scene.journal.holds_loads.send_replace(false);
    scene.until("the batch is loaded again", async || scene.loads() == 2).await;
    scene.dealt_with().await;
    assert_eq!(scene.loads(), 2);
    scene.end().await;
}

#[tokio::test]
async fn somebody_elses_commit_that_a_drive_ran_into_is_loaded_once() {
    let scene = Scene::begin().await;
    scene.journal.holds_quotes.send_replace(true);
    let opened = scene.append(batch::opened()).await;
    scene.wake(opened);
    scene.until("the batch is loaded", async || scene.loads() == 1).await;
    let collected = scene.append(batch::collected()).await;
    scene.wake(collected);
    scene.dealt_with().await;
    assert_eq!(scene.loads(), 1);
    // The worker's own append conflicts, so it loads again, and has the other's commit then.
    scene.journal.holds_quotes.send_replace(false);
    scene.until("the batch is loaded again", async || scene.loads() == 2).await;
    scene.wake(collected);
    scene.dealt_with().await;
    assert_eq!((scene.loads(), scene.journal.journal.head(0).await.unwrap()), (2, collected));
    scene.end().await;
}

#[tokio::test]
async fn what_was_at_rest_before_a_shard_was_lost_is_not_taken_for_known() {
    let scene = Scene::begin().await;
    let newest = scene.comes_to_rest().await;
    scene.say(WakeUp::Lost);
    scene.say(WakeUp::Acquired);
    scene.wake(newest);
    scene.until("the batch is loaded again", async || scene.loads() == 2).await;
    scene.end().await;
}

#[tokio::test]
async fn one_stream_at_rest_says_nothing_of_another() {
    let scene = Scene::begin().await;
    // Stored first, woken for last.
    let payment = StreamId::from(submission().payment_id);
    batch::append(&scene.journal.journal, payment.clone(), vec![submitted().into()]).await;
    let at = scene.journal.journal.head(0).await.unwrap();
    assert!(scene.comes_to_rest().await > at);
    scene.journal.holds_loads.send_replace(true);
    scene.say(WakeUp::Event { stream_id: payment.clone(), sequence: at });
    scene.until("the payment is loaded", async || scene.loads_of(&payment) == 1).await;
    scene.end().await;
}
