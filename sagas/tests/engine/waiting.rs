//! Waiting: a payment that waits has no task, goes on when its time or its event comes, and comes to the same end as one whose
//! task waits with it.

use std::time::Duration;

use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use events::{Account, event::Submitted};
use journal::{ShardLeases, ShardLog, StreamStore};

use super::*;

/// Far longer than anything here takes; a test that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(600);
/// Tasks of a runner with one shard that drives nothing, and of the test.
const TASKS_AT_REST: usize = 10;
const RESUMED_MAX: usize = 32;
/// How long a read of a stream without a leader takes.
const READ_MAX: Duration = Duration::from_secs(5);
const MOMENTS_MAX: usize = 64;

/// A runner whose drives end their tasks at every wait.
fn run_folding(world: &Arc<World>) -> (CancellationToken, JoinHandle<()>) {
    let engine = engine_with(world, Options { moment: Duration::ZERO, ..Options::default() });
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Runner::new(engine, "one".to_owned()).run(shutdown.clone()));
    (shutdown, running)
}

fn world_of(plot: Plot) -> World {
    let world = World::new(plot);
    if plot == Plot::Usurped {
        world.state.lock().unwrap().effective = Some("somebody's".to_owned());
    }
    world
}

#[tokio::test]
async fn a_payment_that_waits_without_a_task_comes_to_the_same_end() {
    let plots = [
        Plot::Delivers,
        Plot::Vanishes,
        Plot::SilentVerifier,
        Plot::WinnerRefuses,
        Plot::WinnerIsSilent,
        Plot::Refuses,
        Plot::Usurped,
        Plot::Superseded,
        Plot::Dear,
        Plot::NoQuotes,
        Plot::Misconfigured,
        Plot::Idle,
        Plot::Unreleasable,
        Plot::MinedFirst,
        Plot::MinedOnForks,
        Plot::AttestedLate,
        Plot::Doubted(30),
    ];
    for plot in plots {
        let (waited, events) = live(world_of(plot)).await;
        let expected = types(&events);
        let world = Arc::new(world_of(plot));
        let payment = submit(&world).await;
        let (shutdown, running) = run_folding(&world);
        let rests = async {
            while types(&history(&world, &payment).await).last() != expected.last() {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, rests).await.unwrap_or_else(|_| panic!("{plot:?} does not end"));
        shutdown.cancel();
        running.await.unwrap();
        assert_eq!(types(&history(&world, &payment).await), expected, "{plot:?}");
        let (waited, folded) = (waited.state.lock().unwrap(), world.state.lock().unwrap());
        // What is counted in a row, and asked once, is so across waits.
        assert_eq!((waited.awards, waited.asked), (folded.awards, folded.asked), "{plot:?}");
        assert_eq!(waited.deposits, folded.deposits, "{plot:?}");
    }
}

/// Payments in escrow whose deliveries are waited for on a chain that is followed, in one shard, on tokio's clock.
struct Followed {
    world: World,
    journal: MemoryJournal,
    open: Vec<StreamId>,
    begun: Instant,
    round: watch::Sender<u64>,
    /// Whose deliveries are on the chain, with the round that told.
    delivered: Mutex<BTreeMap<PaymentId, u64>>,
    /// How often each delivery was looked at.
    looks: Mutex<BTreeMap<PaymentId, u32>>,
    tasks_max: AtomicU32,
    /// Whose streams cannot be read.
    unreadable: Mutex<BTreeSet<StreamId>>,
}

fn payment(number: usize) -> PaymentId {
    PaymentId::derive("waiting", &number.to_string())
}

impl Followed {
    async fn new(payments: usize) -> Arc<Self> {
        let journal = MemoryJournal::new(1);
        let open: Vec<_> = (0..payments).map(|number| StreamId::from(payment(number))).collect();
        let event_of = |number| {
            let submitted = Submitted { payment_id: payment(number), ..submission() };
            PaymentEvent::Submitted(Box::new(submitted))
        };
        for (number, stream_id) in open.iter().enumerate() {
            let events = [event_of(number), auction_closed(), awarded(), deposit_prepared(1), secured()];
            batch::append(&journal, stream_id.clone(), events.map(Into::into).into()).await;
        }
        Arc::new(Self {
            world: World::new(Plot::Delivers),
            journal,
            open,
            begun: Instant::now(),
            round: watch::Sender::new(1),
            delivered: Mutex::default(),
            looks: Mutex::default(),
            tasks_max: AtomicU32::default(),
            unreadable: Mutex::default(),
        })
    }

    fn run(self: &Arc<Self>) -> (Engine, CancellationToken, JoinHandle<()>) {
        let ports = Ports {
            journal: self.clone(),
            chains: self.clone(),
            clock: self.clone(),
            open_streams: self.clone(),
            auction: Arc::new(World::new(Plot::Delivers)),
            selector: Arc::new(World::new(Plot::Delivers)),
            verifier: Arc::new(World::new(Plot::Delivers)),
            parking: Arc::new(MemoryParking::default()),
        };
        let options = Options { resumed_max: RESUMED_MAX, moments_max: MOMENTS_MAX, ..Options::default() };
        let engine = Engine::new(ports, options);
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(Runner::new(engine.clone(), "one".to_owned()).run(shutdown.clone()));
        (engine, shutdown, running)
    }

    fn deliver(&self, payment_id: &PaymentId) {
        let round = *self.round.borrow() + 1;
        self.delivered.lock().unwrap().insert(payment_id.clone(), round);
    }

    fn looks_at(&self, payment_id: &PaymentId) -> u32 {
        self.looks.lock().unwrap().get(payment_id).copied().unwrap_or_default()
    }

    fn looks(&self) -> u32 {
        self.looks.lock().unwrap().values().sum()
    }

    async fn is_at_rest(&self, payment_id: &PaymentId) -> bool {
        let commits = self.journal.load(&StreamId::from(payment_id.clone())).await.unwrap();
        let events: Vec<_> = commits.iter().flat_map(Recorded::payment_events).cloned().collect();
        types(&events).last() == Some(&"EscrowReleased")
    }

    fn tasks() -> usize {
        Handle::current().metrics().num_alive_tasks()
    }

    /// Returns when `holds`; time passes meanwhile only where nothing else happens.
    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let polled = async {
            while !holds().await {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, polled).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
    }

    /// Returns when all payments wait, and nothing else has a task.
    async fn all_wait(&self) {
        self.until("none has a task", async || {
            self.looks.lock().unwrap().len() == self.open.len() && Self::tasks() <= TASKS_AT_REST
        })
        .await;
    }
}

#[async_trait]
impl Clock for Followed {
    fn now(&self) -> Timestamp {
        at(12) + self.begun.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        sleep(duration).await;
    }
}

#[async_trait]
impl OpenStreams for Followed {
    async fn open_streams(&self, _: u16, _: u64) -> Result<Vec<StreamId>, Transient> {
        Ok(self.open.clone())
    }
}

#[async_trait]
impl StreamStore for Followed {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.tasks_max.fetch_max(u32::try_from(Self::tasks()).unwrap(), Ordering::SeqCst);
        tokio::task::yield_now().await;
        if self.unreadable.lock().unwrap().contains(stream_id) {
            // As long as a read may take.
            sleep(READ_MAX).await;
            return Err(ReadError::Unavailable("no leader".to_owned()));
        }
        self.journal.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for Followed {
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
impl ShardLeases for Followed {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        self.journal.work(shard, owner).await
    }
}

#[async_trait]
impl Chains for Followed {
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.world.prepare_deposit(order, attempt).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.world.prepare_refund(order, attempt).await
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.world.prepare_release(order, attempt).await
    }

    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        self.world.reprice(versions).await
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        self.world.broadcast(transaction).await
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        self.world.deposit_state(order, versions).await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        *self.looks.lock().unwrap().entry(order.payment_id.clone()).or_default() += 1;
        tokio::task::yield_now().await;
        let is_delivered = self.delivered.lock().unwrap().contains_key(&order.payment_id);
        Ok(if is_delivered { DeliveryState::Final(inclusion(7)) } else { DeliveryState::NotSeen })
    }

    async fn escrow_state(&self, _: &PaymentId, _: &EscrowPlan) -> Result<EscrowState, Transient> {
        Ok(EscrowState::Released(inclusion(9)))
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.world.deposit_secured(order).await
    }

    async fn payer_has_escrow(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &events::Account,
    ) -> Result<(bool, u64), Transient> {
        self.world.payer_has_escrow(payment_id, escrow, payer).await
    }

    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        self.world.escrow_found(deposit).await
    }

    async fn deposit_ruled_out(&self, id: &PaymentId, escrow: &EscrowPlan, after: u64) -> Result<bool, Transient> {
        self.world.deposit_ruled_out(id, escrow, after).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        self.world.transaction_state(versions).await
    }

    async fn attestation_holds(&self, _: &Statement, _: &EscrowPlan, signature: &str) -> Result<bool, Transient> {
        Ok(signature == "0xgood")
    }

    async fn signed_by(&self, _: &Statement, _: &EscrowPlan, _: &Account, signature: &str) -> Result<bool, Transient> {
        Ok(signature == "0xgood")
    }

    async fn next_block(&self, _: &ChainId) {
        let _ = self.round.subscribe().changed().await;
    }

    fn cursor(&self, _: &ChainId, _: &Account) -> Option<Cursor> {
        Some(Cursor { round: *self.round.borrow(), settled: 0 })
    }

    async fn next_event(&self, waiting: &Waiting<'_>) {
        let (mut rounds, mut waiting) = (self.round.subscribe(), *waiting);
        while !self.has_news(&mut waiting) {
            let _ = rounds.changed().await;
        }
    }

    fn awaits_block(&self, _: &Waiting<'_>) -> bool {
        false
    }

    fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        let told = self.delivered.lock().unwrap().get(waiting.payment_id).copied();
        told.is_some_and(|told| told > waiting.since.round && told <= *self.round.borrow())
    }

    async fn next_look(&self, _: &ChainId, round: u64) -> Look {
        let mut rounds = self.round.subscribe();
        let round = *rounds.wait_for(|newer| *newer != round).await.unwrap();
        Look { round, is_block: false }
    }
}

#[tokio::test(start_paused = true)]
async fn many_payments_wait_without_tasks_are_taken_over_few_at_a_time_and_go_on_by_their_events() {
    const PAYMENTS: usize = 1_500;
    let world = Followed::new(PAYMENTS).await;
    let (_, shutdown, running) = world.run();
    world.all_wait().await;
    assert_eq!(world.looks(), u32::try_from(PAYMENTS).unwrap(), "each was looked at once");
    let tasks_max = usize::try_from(world.tasks_max.load(Ordering::SeqCst)).unwrap();
    assert!(tasks_max <= RESUMED_MAX + MOMENTS_MAX + TASKS_AT_REST, "{tasks_max} tasks at a time");

    // A block with nothing in it wakes nobody, and an event wakes the payment that it concerns.
    world.round.send_modify(|round| *round += 1);
    let one = payment(77);
    world.deliver(&one);
    world.round.send_modify(|round| *round += 1);
    world.until("the payment is at rest", async || world.is_at_rest(&one).await).await;
    assert_eq!(world.looks(), u32::try_from(PAYMENTS).unwrap() + 1);
    assert!(!world.is_at_rest(&payment(78)).await);

    // All at once: still few at a time.
    (0..PAYMENTS).for_each(|number| world.deliver(&payment(number)));
    world.round.send_modify(|round| *round += 1);
    for number in 0..PAYMENTS {
        let payment_id = payment(number);
        world.until("all payments are at rest", async || world.is_at_rest(&payment_id).await).await;
    }
    let tasks_max = usize::try_from(world.tasks_max.load(Ordering::SeqCst)).unwrap();
    assert!(tasks_max <= RESUMED_MAX + MOMENTS_MAX + TASKS_AT_REST, "{tasks_max} tasks at a time");
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_payment_that_waits_without_a_task_wakes_by_a_hint_a_commit_and_its_timer_and_not_by_what_it_knows() {
    let world = Followed::new(2).await;
    let (engine, shutdown, running) = world.run();
    let (one, other) = (payment(0), payment(1));
    world.all_wait().await;
    let begun = Instant::now();
    assert_eq!((world.looks_at(&one), world.looks_at(&other)), (1, 1));

    engine.hint(&one);
    world.until("the hint is followed", async || world.looks_at(&one) == 2).await;
    world.all_wait().await;

    // Somebody else's commit, behind what it has seen.
    batch::append(&world.journal, one.clone(), vec![seen(7).into()]).await;
    world.until("the commit is seen", async || world.looks_at(&one) == 3).await;
    world.all_wait().await;
    assert_eq!(world.looks_at(&other), 1);
    assert!(begun.elapsed() < UNSEEN_MAX / 2);

    // No event tells.
    let waits_since = Instant::now();
    world.until("nobody relies on events alone", async || world.looks_at(&other) == 2).await;
    assert!(waits_since.elapsed() < UNSEEN_MAX);
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_before_the_task_has_ended_is_not_missed() {
    let world = Followed::new(1).await;
    let (_, shutdown, running) = world.run();
    let one = payment(0);
    world.until("it is looked at", async || world.looks_at(&one) == 1).await;
    // Its task waits still.
    assert!(world.journal.head(0).await.unwrap() == 1);
    world.deliver(&one);
    world.round.send_modify(|round| *round += 1);
    world.until("the payment is at rest", async || world.is_at_rest(&one).await).await;
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn streams_that_cannot_be_read_keep_nobody_else_from_being_resumed() {
    const PAYMENTS: usize = 20 * RESUMED_MAX;
    let world = Followed::new(PAYMENTS).await;
    let (_, shutdown, running) = world.run();
    world.all_wait().await;

    // All are woken, and but for the last none can be read.
    world.unreadable.lock().unwrap().extend(world.open[..PAYMENTS - 1].iter().cloned());
    (0..PAYMENTS).for_each(|number| world.deliver(&payment(number)));
    world.round.send_modify(|round| *round += 1);
    let last = payment(PAYMENTS - 1);
    let since = Instant::now();
    world.until("the one that can be read is at rest", async || world.is_at_rest(&last).await).await;
    assert!(since.elapsed() < UNSEEN_MAX / 2, "{:?}", since.elapsed());

    // They go on where they were.
    world.unreadable.lock().unwrap().clear();
    for number in 0..PAYMENTS {
        let payment_id = payment(number);
        world.until("all payments are at rest", async || world.is_at_rest(&payment_id).await).await;
    }
    shutdown.cancel();
    running.await.unwrap();
}
