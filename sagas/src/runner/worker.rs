//! Shard workers: which payment or batch is driven, and which waits, for as long as the shard's lease is held.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, hash_map},
    future::pending,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    task::{Id, JoinError, JoinSet},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use events::{Epoch, StreamId, mutant};
use journal::{
    WakeUp,
    parking::{Entry, Parked, Record},
};

use super::{
    Engine,
    backoff::Backoff,
    doubled,
    drive::{Driven, Waits},
    memory::Folded,
    parking::{Failing, Failure, ParkedStreams, text_of},
    wait::Resumption,
    waiting_set::WaitingSet,
    wake_up_dedup::WakeUpDedup,
};
use crate::ports::Transient;

/// Findings of a lease term that may wait to be looked at.
const FINDINGS_MAX: usize = 16;
/// How long a worker that panicked is left alone: another gateway may get on with what broke it.
const WORKER_PAUSE: Duration = Duration::from_secs(5);

/// Competes for all open shards of the journal, also for those that it gets, and drives their payments and batches.
pub struct Runner {
    engine: Arc<Engine>,
    owner: String,
}

impl Runner {
    /// A runner that competes under the name `owner`, unique to this process.
    pub fn new(engine: Engine, owner: String) -> Self {
        Self { engine: Arc::new(engine), owner }
    }

    /// Runs until `shutdown`; then gives all shards up, so that another process goes on at once.
    pub async fn run(self, shutdown: CancellationToken) {
        let journal = self.engine.ports().journal.clone();
        let (mut workers, mut stops) = (JoinSet::<u16>::new(), BTreeMap::new());
        while !shutdown.is_cancelled() {
            let epochs = journal.epochs();
            // A sealed shard takes nothing, so nothing can be driven in it.
            stops.retain(|shard, stop: &mut CancellationToken| {
                let sealed = epochs.is_sealed(*shard);
                if sealed {
                    tracing::info!(shard, "shard is sealed");
                    stop.cancel();
                }
                !sealed
            });
            let is_worked =
                |epoch: &&Epoch| !epoch.sealed && (epoch.number == 0 || !mutant!("later-epochs-not-worked"));
            for epoch in epochs.all().iter().filter(is_worked) {
                for shard in epoch.first..epoch.end() {
                    stops.entry(shard).or_insert_with(|| {
                        let stop = shutdown.child_token();
                        let (engine, owner) = (self.engine.clone(), self.owner.clone());
                        workers.spawn(work(Worker::new(engine, *epoch, shard, owner, stop.clone())));
                        stop
                    });
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = journal.grown(epochs.shards()) => {}
                // None ends by itself but one that was stopped, or that panicked.
                Some(Ok(ended)) = workers.join_next(), if !workers.is_empty() => drop(stops.remove(&ended)),
                () = sleep(self.engine.options().sealed_look_every) => {}
            }
        }
        while workers.join_next().await.is_some() {}
    }
}

/// Runs the worker until it is stopped, or panics; its shard.
async fn work(worker: Worker) -> u16 {
    let (shard, stop) = (worker.shard, worker.shutdown.clone());
    // Nothing of it is used again; the lease runs out by itself.
    if let Err(panic) = AssertUnwindSafe(worker.run()).catch_unwind().await {
        let text = text_of(panic.as_ref());
        tracing::error!(shard, text, "worker panicked, and begins anew after a pause");
        stop.run_until_cancelled(sleep(WORKER_PAUSE)).await;
    }
    shard
}

/// What became of a task.
enum Ended {
    /// The stream is at rest, with the commit at this sequence as its newest; 0 for none in this shard.
    AtRest(u64),
    /// The stream waits for something, which needs no task.
    Waits(Box<Waits>),
    /// Driving it failed.
    Failed(Box<Failure>),
    /// It was parked, or found in another state by somebody else's doing.
    Parked(Box<Record>),
}

/// What the tasks of a lease term find out.
enum Finding {
    /// Payments and batches that are open.
    Open(Vec<StreamId>),
    /// Entries of the parking.
    Parking(Vec<Record>),
    /// What is parked can't be read now.
    ParkingUnknown,
}

/// The term of a shard's lease: the time in which this worker drives it.
struct LeaseTerm {
    findings: mpsc::Receiver<Finding>,
    /// Streams to be driven once it is known what is parked.
    held_back: Option<BTreeSet<StreamId>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

/// The worker of one shard.
struct Worker {
    engine: Arc<Engine>,
    epoch: Epoch,
    shard: u16,
    owner: String,
    shutdown: CancellationToken,
    term: Option<LeaseTerm>,
    /// Streams that a task is at work on, with the highest sequence of the wake-ups that came meanwhile; 0 for none.
    running: HashMap<StreamId, u64>,
    stream_of: HashMap<Id, StreamId>,
    tasks: JoinSet<Ended>,
    /// Streams that wait without a task.
    waiting: WaitingSet,
    failing: HashMap<StreamId, Failing>,
    dedup: WakeUpDedup,
    parked_streams: ParkedStreams,
}

impl Worker {
    fn new(engine: Arc<Engine>, epoch: Epoch, shard: u16, owner: String, shutdown: CancellationToken) -> Self {
        let waiting = WaitingSet::new(&engine);
        Self {
            engine,
            epoch,
            shard,
            owner,
            shutdown,
            term: None,
            running: HashMap::new(),
            stream_of: HashMap::new(),
            tasks: JoinSet::new(),
            waiting,
            failing: HashMap::new(),
            dedup: WakeUpDedup::default(),
            parked_streams: ParkedStreams::default(),
        }
    }

    async fn run(mut self) {
        let journal = self.engine.ports().journal.clone();
        let shutdown = self.shutdown.clone();
        let mut lease = journal.work(self.shard, &self.owner).await;
        let mut backoff = Backoff::default();
        loop {
            // In this order, so that the same happenings always come to the same. Nobody starves: a task ends once for
            // each time it is started, a lease term finds no more than there is, and those that wait have turns.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended),
                finding = found(&mut self.term) => self.found(finding),
                (stream_id, permit) = self.waiting.next() => self.begin(stream_id, Duration::ZERO, Some(permit)),
                wake_up = lease.next() => match wake_up {
                    Ok(wake_up) => {
                        backoff.over();
                        self.woken(wake_up);
                    }
                    Err(error) => {
                        let say = |backoff: &Backoff| {
                            let (faults, since) = (backoff.count(), backoff.since());
                            tracing::warn!(shard = self.shard, faults, since, %error, "no wake-ups");
                        };
                        self.engine.back_off(&mut backoff, say).await;
                    }
                },
            }
        }
        // A task may be stopped anywhere: what it had not journaled is done again by whoever drives the stream next.
        self.stop_all();
        lease.release().await;
    }

    fn woken(&mut self, wake_up: WakeUp) {
        match wake_up {
            WakeUp::Acquired => {
                tracing::info!(shard = self.shard, "shard acquired");
                self.term = Some(LeaseTerm::begin(&self.engine, self.epoch, self.shard));
            }
            WakeUp::Event { stream_id, sequence } => self.on_commit(stream_id, sequence),
            WakeUp::Lost => {
                tracing::warn!(shard = self.shard, "shard lost");
                self.stop_all();
            }
        }
    }

    /// A commit was appended to the stream, by whomever.
    fn on_commit(&mut self, stream_id: StreamId, sequence: u64) {
        let at_rest_with_it = self.dedup.is_duplicate(&stream_id, sequence);
        let waits_with_it = self.waiting.newest(&stream_id).is_some_and(|newest| sequence <= newest);
        if !at_rest_with_it && !waits_with_it && !self.running.contains_key(&stream_id) {
            self.start(stream_id.clone(), Duration::ZERO);
        }
        // Whether the task knows the commit is seen when it ends: a server that just lost its lead may not have told it.
        if let Some(newest) = self.running.get_mut(&stream_id) {
            *newest = sequence.max(*newest);
        }
    }

    fn found(&mut self, finding: Finding) {
        match finding {
            Finding::Open(open) => {
                tracing::info!(shard = self.shard, open = open.len(), "open payments and batches taken over");
                let open = if mutant!("take-over-forgets") { Vec::new() } else { open };
                open.into_iter().for_each(|stream_id| self.take_over(stream_id));
            }
            Finding::Parking(records) => {
                let replayed = self.apply(&records);
                self.release_held_back();
                replayed.into_iter().for_each(|stream_id| self.start(stream_id, Duration::ZERO));
            }
            // To drive what is parked is in vain and does no harm; to wait would stop the whole shard.
            Finding::ParkingUnknown => self.release_held_back(),
        }
    }

    /// Applies entries of the parking; the streams that an operator wants to be driven again.
    fn apply(&mut self, records: &[Record]) -> Vec<StreamId> {
        let mut replayed = Vec::new();
        for record in records {
            if !self.parked_streams.apply(record) {
                continue;
            }
            if let Entry::Replayed(replay) = &record.entry {
                tracing::info!(stream_id = %record.stream_id, by = replay.by, "parked stream is replayed");
                self.failing.remove(&record.stream_id);
                replayed.push(record.stream_id.clone());
            }
        }
        replayed.retain(|stream_id| !self.parked_streams.is_parked(stream_id));
        replayed
    }

    /// Releases what was held back until it is known what is parked.
    fn release_held_back(&mut self) {
        let held_back = self.term.as_mut().and_then(|term| term.held_back.take());
        held_back.into_iter().flatten().for_each(|stream_id| self.take_over(stream_id));
    }

    /// Has the stream driven when its turn comes, unless that is being done.
    fn take_over(&mut self, stream_id: StreamId) {
        if !self.running.contains_key(&stream_id) {
            self.waiting.take_over(stream_id);
        }
    }

    /// Drives the stream after `pause`, unless that is being done, or it is parked.
    fn start(&mut self, stream_id: StreamId, pause: Duration) {
        self.begin(stream_id, pause, None);
    }

    /// The same, also in its turn among those that waited.
    fn begin(&mut self, stream_id: StreamId, pause: Duration, permit: Option<OwnedSemaphorePermit>) {
        let memory = self.waiting.take(&stream_id);
        let Some(term) = &mut self.term else { return };
        if let Some(held_back) = &mut term.held_back {
            held_back.insert(stream_id);
            return;
        }
        if self.parked_streams.is_parked(&stream_id) {
            tracing::debug!(%stream_id, "stream is parked");
            return;
        }
        let hash_map::Entry::Vacant(free) = self.running.entry(stream_id.clone()) else { return };
        free.insert(0);
        let drive = drive(self.engine.clone(), self.shard, stream_id.clone(), pause, memory, permit);
        let task = self.tasks.spawn(drive);
        self.stream_of.insert(task.id(), stream_id);
    }

    /// Parks the stream, which counts as running until that is done.
    fn park(&mut self, stream_id: StreamId, parked: Parked) {
        let after = self.parked_streams.newest(&stream_id);
        self.running.insert(stream_id.clone(), 0);
        let (engine, id) = (self.engine.clone(), stream_id.clone());
        let park = async move { Ended::Parked(Box::new(engine.park(&id, after, &parked).await)) };
        let task = self.tasks.spawn(park);
        self.stream_of.insert(task.id(), stream_id);
    }

    fn ended(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let (id, ended) = match ended {
            Ok(ended) => ended,
            // Also what was found while looking into a failure.
            Err(error) => (error.id(), Ended::Failed(Box::new(Failure::unknown(&error.to_string())))),
        };
        // A task that was aborted is not known any more.
        let Some(stream_id) = self.stream_of.remove(&id) else { return };
        let woken_for = self.running.remove(&stream_id).unwrap_or_default();
        match ended {
            Ended::AtRest(newest) => {
                self.failing.remove(&stream_id);
                if woken_for > newest {
                    // Somebody else's commit, behind what the task had loaded.
                    self.start(stream_id, Duration::ZERO);
                } else {
                    self.dedup.came_to_rest(stream_id, newest);
                }
            }
            Ended::Waits(waits) => {
                let newest = waits.newest;
                self.waiting.insert(stream_id.clone(), *waits);
                if woken_for > newest {
                    self.start(stream_id, Duration::ZERO);
                }
            }
            Ended::Failed(failure) => self.failed(stream_id, *failure),
            Ended::Parked(record) => {
                self.failing.remove(&stream_id);
                self.parked_streams.apply(&record);
                if self.parked_streams.is_parked(&stream_id) {
                    tracing::error!(
                        %stream_id,
                        "PARKED: the stream is left alone until it is replayed; see `gw admin park show`"
                    );
                } else {
                    // It was replayed while it was being tried here.
                    self.start(stream_id, Duration::ZERO);
                }
            }
        }
    }

    fn failed(&mut self, stream_id: StreamId, failure: Failure) {
        let now = self.engine.ports().clock.now();
        let options = self.engine.options();
        let failing = self.failing.entry(stream_id.clone()).or_insert_with(|| Failing::begin(now));
        let attempts = failing.another(&failure, now);
        let cause = failure.cause;
        tracing::error!(%stream_id, attempts, kind = %cause.kind, cause = cause.text, "stream cannot be driven");
        if attempts >= options.tries_max {
            let parked = failing.parked(cause, &self.owner);
            self.park(stream_id, parked);
        } else {
            // Its deadlines have nobody else to act on them; the rest go on meanwhile.
            let pause = doubled(options.retry_min, options.retry_max, attempts);
            self.start(stream_id, pause);
        }
    }

    fn stop_all(&mut self) {
        self.term = None;
        self.tasks.abort_all();
        self.waiting.clear();
        self.running.clear();
        self.stream_of.clear();
        self.failing.clear();
        self.dedup = WakeUpDedup::default();
        self.parked_streams = ParkedStreams::default();
    }
}

/// The next finding of the lease term; none comes while the lease is not held.
async fn found(term: &mut Option<LeaseTerm>) -> Finding {
    match term {
        Some(term) => match term.findings.recv().await {
            Some(finding) => finding,
            // The task that follows the parking ends only with the lease term.
            None => pending().await,
        },
        None => pending().await,
    }
}

impl LeaseTerm {
    /// Looks at everything open in the shard, and at what is parked of it.
    fn begin(engine: &Arc<Engine>, epoch: Epoch, shard: u16) -> Self {
        let (findings, found) = mpsc::channel(FINDINGS_MAX);
        let look = tokio::spawn(find_open_streams(engine.clone(), shard, findings.clone()));
        let follow = tokio::spawn(follow(engine.clone(), epoch, shard, findings));
        let tasks = [AbortOnDropHandle::new(look), AbortOnDropHandle::new(follow)];
        Self { findings: found, held_back: Some(BTreeSet::new()), _tasks: tasks }
    }
}

/// Asks for what is open until there is an answer.
async fn find_open_streams(engine: Arc<Engine>, shard: u16, findings: mpsc::Sender<Finding>) {
    let mut backoff = Backoff::default();
    loop {
        match open_streams(&engine, shard).await {
            Ok(open) => {
                // Nobody listens when the lease term is over.
                let _ = findings.send(Finding::Open(open)).await;
                return;
            }
            Err(fault) => {
                let say = |backoff: &Backoff| {
                    let (faults, since, kind) = (backoff.count(), backoff.since(), fault.kind());
                    tracing::warn!(shard, faults, since, kind, %fault, "open payments and batches unknown");
                };
                engine.back_off_transient(&mut backoff, &fault, say).await;
            }
        }
    }
}

async fn open_streams(engine: &Engine, shard: u16) -> Result<Vec<StreamId>, Transient> {
    let ports = engine.ports();
    let head = ports.journal.head(shard).await.map_err(Transient::unreachable)?;
    ports.open_streams.open_streams(shard, head).await
}

/// Follows the parking until nobody listens.
async fn follow(engine: Arc<Engine>, epoch: Epoch, shard: u16, findings: mpsc::Sender<Finding>) {
    let mut partition = engine.ports().parking.follow(epoch, shard);
    let mut backoff = Backoff::default();
    loop {
        let finding = match partition.next().await {
            Ok(records) => {
                backoff.over();
                Finding::Parking(records)
            }
            Err(error) => {
                let say = |backoff: &Backoff| {
                    let (faults, since) = (backoff.count(), backoff.since());
                    tracing::warn!(shard, faults, since, %error, "what is parked is unknown");
                };
                engine.back_off(&mut backoff, say).await;
                Finding::ParkingUnknown
            }
        };
        if findings.send(finding).await.is_err() {
            return;
        }
    }
}

/// Drives the stream after `pause`, if it lies in `shard`, up to its rest or a longer wait. What fails or panics is looked into
/// here, so that the stream counts as running until its failure is known.
async fn drive(
    engine: Arc<Engine>,
    shard: u16,
    stream_id: StreamId,
    pause: Duration,
    memory: Folded,
    permit: Option<OwnedSemaphorePermit>,
) -> Ended {
    if !pause.is_zero() {
        engine.ports().clock.sleep(pause).await;
    }
    let resumption = Resumption::new(permit);
    let driven = async {
        let driven = engine.drive_in(Some(shard), &stream_id, memory, Some(&resumption));
        if !resumption.in_turn {
            return driven.await;
        }
        tokio::select! {
            biased;
            driven = driven => driven,
            never = resumption.over_in_time() => match never {},
        }
    };
    // The engine's state is its ports, which hold nothing of a stream that a panic could leave half done.
    let driven = AssertUnwindSafe(driven).catch_unwind().await;
    // A look into a failure reads the journal alone, and keeps nobody waiting.
    resumption.over();
    let failure = match driven {
        Ok(Ok(Driven::AtRest(newest))) => return Ended::AtRest(newest),
        Ok(Ok(Driven::Waits(waits))) => return Ended::Waits(waits),
        Ok(Err(stuck)) => Box::pin(engine.diagnose(&stream_id, stuck)).await,
        Err(panic) => {
            let text = text_of(panic.as_ref());
            drop(panic);
            Box::pin(engine.diagnose_panic(&stream_id, &text)).await
        }
    };
    Ended::Failed(Box::new(failure))
}
