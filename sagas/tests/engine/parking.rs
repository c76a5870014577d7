//! Parking: what keeps failing is parked with its cause, stays so until it is replayed, and takes nothing from the rest.

mod epochs;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::AtomicBool,
    time::Duration,
};

use tokio::task::JoinHandle;

use events::{Epoch, event::Submitted};
use journal::{
    ShardLeases, ShardLog, StreamStore, WakeUp,
    parking::{Cause, CauseKind, Entry, Error, Parked, Parking, ParkingPartition, Record, Replayed},
};

use super::*;

const SHARDS: u16 = 4;
const TRIES: u32 = 5;
/// How often it is looked whether a shard is sealed.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Far longer than anything here takes; a test that gets here has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// A payment that nobody bids for.
const ENDED: [&str; 3] = ["Submitted", "AuctionClosed", "Failed"];

/// What is wrong with a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    Unreadable,
    Unacceptable,
    Panics,
    /// Each of so many calls to come has a transient fault.
    Transient(u32),
    /// Its quotes are waited for until it was read so often.
    Awaits(u32),
}

/// A world in which nobody bids, some payments are harmed, and reads of each are counted.
struct TestWorld {
    world: World,
    parking: MemoryParking,
    open: Mutex<BTreeSet<StreamId>>,
    harmed: Mutex<BTreeMap<StreamId, Harm>>,
    loads: Mutex<BTreeMap<StreamId, u32>>,
    gathers: Mutex<BTreeMap<StreamId, u32>>,
    /// Whether the first epoch is sealed.
    sealed: AtomicBool,
    /// So many reads of the parking to come fail.
    parking_away: Arc<AtomicU32>,
}

impl TestWorld {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            world: World::new(Plot::NoQuotes),
            parking: MemoryParking::default(),
            open: Mutex::default(),
            harmed: Mutex::default(),
            loads: Mutex::default(),
            gathers: Mutex::default(),
            sealed: AtomicBool::default(),
            parking_away: Arc::default(),
        })
    }

    fn harm(&self, stream_id: &StreamId, harm: Harm) {
        self.harmed.lock().unwrap().insert(stream_id.clone(), harm);
    }

    fn heal(&self, stream_id: &StreamId) {
        self.harmed.lock().unwrap().remove(stream_id);
    }

    fn harm_of(&self, stream_id: &StreamId) -> Option<Harm> {
        self.harmed.lock().unwrap().get(stream_id).copied()
    }

    fn loads_of(&self, stream_id: &StreamId) -> u32 {
        self.loads.lock().unwrap().get(stream_id).copied().unwrap_or_default()
    }

    fn gathers_of(&self, stream_id: &StreamId) -> u32 {
        self.gathers.lock().unwrap().get(stream_id).copied().unwrap_or_default()
    }

    async fn shard_of(&self, stream_id: &StreamId) -> u16 {
        self.world.journal.load(stream_id).await.unwrap()[0].position.shard
    }

    async fn append(&self, stream_id: &StreamId, events: Vec<PaymentEvent>) -> u64 {
        let commits = self.world.journal.load(stream_id).await.unwrap();
        let commit = Commit {
            stream_id: stream_id.clone(),
            expected: commits.last().map_or(Position::START, |last| last.position),
            commit_id: CommitId::random(),
            events: events.into_iter().map(Into::into).collect(),
            correlation: "test".to_owned(),
            causation: "test".to_owned(),
        };
        self.world.journal.append(&commit).await.unwrap().position.sequence
    }

    async fn submit(&self, stream_id: &StreamId) {
        let payment_id = stream_id.payment().unwrap().clone();
        self.open.lock().unwrap().insert(stream_id.clone());
        self.append(stream_id, vec![PaymentEvent::Submitted(Box::new(Submitted { payment_id, ..submission() }))]).await;
    }

    async fn types(&self, stream_id: &StreamId) -> Vec<&'static str> {
        types(&history(&self.world, stream_id).await)
    }

    async fn ends(&self, stream_id: &StreamId) {
        until("the payment ends", async || self.types(stream_id).await == ENDED).await;
    }

    async fn history(&self, stream_id: &StreamId) -> Vec<Entry> {
        self.parking.history(stream_id).await.unwrap().into_iter().map(|record| record.entry).collect()
    }

    async fn parks(&self, stream_id: &StreamId, times: usize) -> Parked {
        until("it is parked", async || {
            let entries = self.history(stream_id).await;
            entries.iter().filter(|entry| matches!(entry, Entry::Parked(_))).count() == times
        })
        .await;
        match self.history(stream_id).await.pop() {
            Some(Entry::Parked(parked)) => parked,
            other => panic!("{other:?}"),
        }
    }

    async fn replay(&self, stream_id: &StreamId) {
        self.parking.replay(stream_id, &Replayed::new("operator", at(500))).await.unwrap();
    }
}

/// Waits until `holds` does.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let polled = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// A payment of the first shard that no other test has.
fn payment(number: u32) -> StreamId {
    let ids = (0..).map(|salt: u32| StreamId::from(PaymentId::derive("parking", &format!("{number}-{salt}"))));
    let mut of_the_shard = ids.filter(|id| id.shard(SHARDS) == 0);
    of_the_shard.next().unwrap()
}

#[async_trait]
impl StreamStore for TestWorld {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        if self.harm_of(&commit.stream_id) == Some(Harm::Unacceptable) {
            return Err(AppendError::Unacceptable("too large".to_owned()));
        }
        self.world.journal.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        *self.loads.lock().unwrap().entry(stream_id.clone()).or_default() += 1;
        if self.harm_of(stream_id) == Some(Harm::Unreadable) {
            let (subject, reason) = (Some("subject".to_owned()), "unknown event Pardoned".to_owned());
            return Err(ReadError::Unreadable { shard: 0, sequence: 77, subject, reason });
        }
        self.world.journal.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for TestWorld {
    fn epochs(&self) -> Epochs {
        let mut epochs = self.world.journal.epochs().all().to_vec();
        epochs[0].sealed = self.sealed.load(Ordering::SeqCst);
        Epochs::new(epochs).unwrap()
    }

    async fn grown(&self, shards: u16) {
        self.world.journal.grown(shards).await;
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.world.journal.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.world.journal.head(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.world.journal.wait_beyond(shard, sequence).await
    }
}

#[async_trait]
impl ShardLeases for TestWorld {
    async fn work(&self, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
        self.world.journal.work(shard, owner).await
    }
}

#[async_trait]
impl Auction for TestWorld {
    async fn gather(&self, request: &RequestForQuotes) -> Result<Gathered, Transient> {
        let stream_id = StreamId::from(request.payment_id.clone().unwrap());
        *self.gathers.lock().unwrap().entry(stream_id.clone()).or_default() += 1;
        match self.harm_of(&stream_id) {
            Some(Harm::Panics) => panic!("no such settler"),
            Some(Harm::Transient(0)) | None => self.world.gather(request).await,
            Some(Harm::Transient(left)) => {
                self.harm(&stream_id, Harm::Transient(left - 1));
                Err(Transient::unreachable("bus is away"))
            }
            Some(Harm::Awaits(times)) => {
                while self.loads_of(&stream_id) < times {
                    tokio::task::yield_now().await;
                }
                self.world.gather(request).await
            }
            Some(Harm::Unreadable | Harm::Unacceptable) => self.world.gather(request).await,
        }
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
impl Clock for TestWorld {
    fn now(&self) -> Timestamp {
        self.world.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.world.sleep(duration).await;
    }
}

#[async_trait]
impl OpenStreams for TestWorld {
    async fn open_streams(&self, shard: u16, _: u64) -> Result<Vec<StreamId>, Transient> {
        let (open, epochs) = (self.open.lock().unwrap().clone(), self.epochs());
        // Of every shard in which it may lie.
        Ok(open.into_iter().filter(|stream_id| epochs.shards_of(stream_id).any(|may| may == shard)).collect())
    }
}

/// The parking, which may be away.
struct Distant {
    parking: MemoryParking,
    away: Arc<AtomicU32>,
}

impl Distant {
    fn reach(&self) -> Result<(), Error> {
        let away = self.away.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        away.map_or(Ok(()), |_| Err(Error::Unavailable("away".to_owned())))
    }
}

#[async_trait]
impl Parking for Distant {
    async fn park(&self, stream_id: &StreamId, after: u64, parked: &Parked) -> Result<Record, Error> {
        self.reach()?;
        self.parking.park(stream_id, after, parked).await
    }

    async fn replay(&self, stream_id: &StreamId, replayed: &Replayed) -> Result<Record, Error> {
        self.parking.replay(stream_id, replayed).await
    }

    async fn history(&self, stream_id: &StreamId) -> Result<Vec<Record>, Error> {
        self.parking.history(stream_id).await
    }

    async fn parked(&self) -> Result<Vec<Record>, Error> {
        self.parking.parked().await
    }

    fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition> {
        let distant = Self { parking: self.parking.clone(), away: self.away.clone() };
        Box::new(DistantPartition { partition: self.parking.follow(epoch, shard), distant })
    }
}

struct DistantPartition {
    partition: Box<dyn ParkingPartition>,
    distant: Distant,
}

#[async_trait]
impl ParkingPartition for DistantPartition {
    async fn next(&mut self) -> Result<Vec<Record>, Error> {
        self.distant.reach()?;
        self.partition.next().await
    }
}

/// A process that works the shards of the test world.
struct Process {
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Process {
    fn start(test: &Arc<TestWorld>, owner: &str) -> Self {
        let distant = Distant { parking: test.parking.clone(), away: test.parking_away.clone() };
        let ports = Ports {
            journal: test.clone(),
            chains: Arc::new(World::new(Plot::NoQuotes)),
            auction: test.clone(),
            selector: Arc::new(World::new(Plot::NoQuotes)),
            verifier: Arc::new(World::new(Plot::NoQuotes)),
            open_streams: test.clone(),
            parking: Arc::new(distant),
            clock: test.clone(),
        };
        let engine =
            Engine::new(ports, Options { tries_max: TRIES, sealed_look_every: LOOK_EVERY, ..Options::default() });
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(Runner::new(engine, owner.to_owned()).run(shutdown.clone()));
        Self { shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_driven_is_parked_with_its_cause_and_the_rest_go_on() {
    let causes = [
        (Harm::Unreadable, CauseKind::Unreadable, "Pardoned", Some(77)),
        (Harm::Unacceptable, CauseKind::Unacceptable, "too large", None),
        (Harm::Panics, CauseKind::Panicked, "no such settler", None),
    ];
    for (harm, kind, text, sequence) in causes {
        let test = TestWorld::new();
        let (bad, good) = (payment(1), payment(2));
        test.harm(&bad, harm);
        let process = Process::start(&test, "one");
        test.submit(&bad).await;
        test.submit(&good).await;
        let parked = test.parks(&bad, 1).await;
        let Cause { kind: kind_found, text: text_found, sequence: sequence_found, .. } = &parked.cause;
        assert_eq!((*kind_found, *sequence_found), (kind, sequence));
        assert!(text_found.contains(text), "{text_found}");
        assert_eq!((parked.attempts, parked.gateway.as_str()), (TRIES, "one"));
        assert!(parked.first_at < parked.last_at);
        test.ends(&good).await;

        // Nobody touches it any more, whatever else happens in its stream or its shard.
        let loads = test.loads_of(&bad);
        test.append(&bad, vec![auction_closed()]).await;
        let another = payment(3);
        test.submit(&another).await;
        test.ends(&another).await;
        assert_eq!(test.loads_of(&bad), loads);
        assert_eq!(test.history(&bad).await.len(), 1);
        process.stop().await;
    }
}

#[tokio::test]
async fn events_that_cannot_follow_each_other_are_parked_with_the_message_at_fault() {
    let test = TestWorld::new();
    let bad = payment(1);
    test.submit(&bad).await;
    let at_fault = test.append(&bad, vec![released()]).await;
    test.append(&bad, vec![auction_closed()]).await;
    let process = Process::start(&test, "one");
    let parked = test.parks(&bad, 1).await;
    assert_eq!((parked.cause.kind, parked.cause.sequence), (CauseKind::Illegal, Some(at_fault)), "{parked:?}");
    process.stop().await;
}

#[tokio::test]
async fn what_is_parked_stays_so_when_another_takes_over() {
    let test = TestWorld::new();
    let (bad, good) = (payment(1), payment(2));
    test.harm(&bad, Harm::Unreadable);
    test.submit(&bad).await;
    let one = Process::start(&test, "one");
    test.parks(&bad, 1).await;
    one.stop().await;
    let loads = test.loads_of(&bad);

    // Both are open for the next owner, the parked one first.
    test.submit(&good).await;
    let two = Process::start(&test, "two");
    test.ends(&good).await;
    assert_eq!(test.loads_of(&bad), loads);

    // The same while it stands by and takes over alive.
    let three = Process::start(&test, "three");
    two.stop().await;
    let another = payment(3);
    test.submit(&another).await;
    test.ends(&another).await;
    assert_eq!(test.loads_of(&bad), loads);
    assert_eq!(test.history(&bad).await.len(), 1);
    three.stop().await;
}

#[tokio::test]
async fn a_replay_drives_it_again_and_parks_it_again_while_the_cause_lasts() {
    for harm in [Harm::Unreadable, Harm::Unacceptable, Harm::Panics] {
        let test = TestWorld::new();
        let bad = payment(1);
        test.harm(&bad, harm);
        let process = Process::start(&test, "one");
        test.submit(&bad).await;
        test.parks(&bad, 1).await;
        test.replay(&bad).await;
        let again = test.parks(&bad, 2).await;
        // The tries before the replay count no more.
        assert_eq!(again.attempts, TRIES);

        test.heal(&bad);
        test.replay(&bad).await;
        test.ends(&bad).await;
        let entries = test.history(&bad).await;
        let parked: Vec<bool> = entries.iter().map(|entry| matches!(entry, Entry::Parked(_))).collect();
        assert_eq!(parked, [true, false, true, false]);
        assert_eq!(test.parking.parked().await.unwrap(), []);
        process.stop().await;
    }
}

#[tokio::test]
async fn a_replay_that_nobody_was_there_to_hear_is_carried_out_by_the_next_owner() {
    let test = TestWorld::new();
    let bad = payment(1);
    test.harm(&bad, Harm::Panics);
    test.submit(&bad).await;
    let one = Process::start(&test, "one");
    test.parks(&bad, 1).await;
    one.stop().await;
    test.heal(&bad);
    test.replay(&bad).await;
    let two = Process::start(&test, "two");
    test.ends(&bad).await;
    two.stop().await;
}

#[tokio::test]
async fn a_transient_fault_never_parks_however_long_it_lasts() {
    let test = TestWorld::new();
    let (long, good) = (payment(1), payment(2));
    test.harm(&long, Harm::Transient(TRIES * 100));
    let process = Process::start(&test, "one");
    test.submit(&long).await;
    test.submit(&good).await;
    test.ends(&good).await;
    test.ends(&long).await;
    assert_eq!(test.history(&long).await, []);
    process.stop().await;
}

#[tokio::test]
async fn a_parking_that_is_away_stops_nothing_and_takes_what_fails_once_it_is_back() {
    let test = TestWorld::new();
    let (bad, good) = (payment(1), payment(2));
    test.harm(&bad, Harm::Panics);
    test.parking_away.store(u32::MAX, Ordering::SeqCst);
    let process = Process::start(&test, "one");
    test.submit(&bad).await;
    test.submit(&good).await;
    test.ends(&good).await;
    assert_eq!(test.history(&bad).await, []);
    test.parking_away.store(3, Ordering::SeqCst);
    test.parks(&bad, 1).await;
    process.stop().await;
}
