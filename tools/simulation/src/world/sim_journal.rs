//! The simulated journal of one process of the gateway: commits are stored as the real journal stores them, and calls fail
//! in every way that the contract of [`Journal`] allows.

use std::{
    collections::{BTreeMap, VecDeque},
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::Notify, time::sleep};

use events::{Epochs, StreamId};
use journal::{
    AppendError, Commit, Position, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, WakeUp,
    memory::MemoryJournal,
};

use super::{World, invariants::require};
use crate::{coverage, process::Process, random::RandomSource};

/// Shards of a run's first epoch.
pub const SHARDS: u16 = 2;
/// A process learns of an epoch by itself within so long, in milliseconds.
const LEARNS_WITHIN_MS: u64 = 40_000;
/// How often who waits for an epoch looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long an append waits for its acknowledgement.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);

/// The leases: which process works which shard.
#[derive(Default)]
pub struct Shards(Mutex<BTreeMap<u16, Shard>>);

#[derive(Default)]
struct Shard {
    /// In the order in which they came.
    contenders: Vec<Arc<Contender>>,
    owner: Option<u64>,
    next_id: u64,
}

struct Contender {
    id: u64,
    process: Arc<Process>,
    queue: Mutex<VecDeque<WakeUp>>,
    filled: Notify,
    /// Counts its lease terms: odd while it believes that it owns the shard.
    term: AtomicU64,
}

impl Contender {
    fn push(&self, wake_up: WakeUp) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(wake_up);
        self.filled.notify_one();
    }

    /// It owns the shard from now on; the end of a former lease term it learns at the latest now.
    fn acquire(&self) {
        self.lose(self.term());
        self.term.fetch_add(1, Ordering::SeqCst);
        self.push(WakeUp::Acquired);
    }

    /// It learns that the lease `term` is over, unless it knows.
    fn lose(&self, term: u64) {
        if term % 2 == 1 && self.term.compare_exchange(term, term + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.push(WakeUp::Lost);
        }
    }

    fn term(&self) -> u64 {
        self.term.load(Ordering::SeqCst)
    }

    fn pop(&self) -> Option<WakeUp> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Shards {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, Shard>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, shard: u16, process: Arc<Process>) -> Arc<Contender> {
        let mut shards = self.lock();
        let shard = shards.entry(shard).or_default();
        shard.next_id += 1;
        let contender = Arc::new(Contender {
            id: shard.next_id,
            process,
            queue: Mutex::default(),
            filled: Notify::new(),
            term: AtomicU64::new(0),
        });
        shard.contenders.push(contender.clone());
        contender
    }

    fn leave(&self, shard: u16, id: u64) {
        let mut shards = self.lock();
        let shard = shards.entry(shard).or_default();
        shard.contenders.retain(|contender| contender.id != id);
        if shard.owner == Some(id) {
            shard.owner = None;
        }
    }

    /// Wakes the owner of the shard.
    fn wake(&self, position: Position, stream_id: &StreamId) {
        let shards = self.lock();
        let Some(shard) = shards.get(&position.shard) else { return };
        let owner = shard.contenders.iter().find(|contender| shard.owner == Some(contender.id));
        if let Some(owner) = owner {
            owner.push(WakeUp::Event { stream_id: stream_id.clone(), sequence: position.sequence });
        }
    }

    /// Gives the shard to a waiting contender when its owner is dead; with `usurp` also when it lives. The former owner is
    /// returned: it does not know yet.
    fn keep(&self, shard: u16, usurp: bool) -> Option<Arc<Contender>> {
        let mut shards = self.lock();
        let shard = shards.entry(shard).or_default();
        let owner = shard.contenders.iter().find(|contender| shard.owner == Some(contender.id)).cloned();
        let lives = owner.as_ref().is_some_and(|owner| !owner.process.is_dead());
        if lives && !usurp {
            return None;
        }
        let next = shard
            .contenders
            .iter()
            .find(|contender| !contender.process.is_dead() && shard.owner != Some(contender.id))
            .cloned()
            .or_else(|| owner.clone().filter(|_| lives));
        let Some(next) = next else {
            shard.owner = None;
            return None;
        };
        // The former owner waits behind the others from now on.
        if let Some(owner) = &owner {
            shard.contenders.retain(|contender| contender.id != owner.id);
            shard.contenders.push(owner.clone());
        }
        shard.owner = Some(next.id);
        next.acquire();
        owner.filter(|owner| lives && owner.id != next.id)
    }
}

impl Shards {
    /// Gives a shard to another contender where there is one, and anew to its owner where not; both know at once.
    pub fn usurp(&self, shard: u16) {
        if let Some(former) = self.keep(shard, true) {
            former.lose(former.term());
        }
    }
}

/// Keeps the leases: a shard whose owner died goes to another, and at times one that still has an owner does.
pub async fn keep_shards(world: Arc<World>) {
    let random = world.random("leases");
    loop {
        sleep(Duration::from_millis(1000)).await;
        for shard in 0..world.memory.shards() {
            let usurp = world.strikes(&random, "shard changes hands", world.plan.faults.takeover);
            if usurp {
                world.note(format!("fault: shard {shard} is taken over"));
            }
            if let Some(former) = world.shards.keep(shard, usurp) {
                // For a while two believe that they own it.
                coverage::fault("two own one shard");
                let (notified_after, term) = (Duration::from_millis(random.number(0..=20_000)), former.term());
                tokio::spawn(async move {
                    sleep(notified_after).await;
                    former.lose(term);
                });
            }
        }
    }
}

/// The journal of one process.
pub struct SimJournal {
    world: Arc<World>,
    process: Arc<Process>,
    memory: MemoryJournal,
    random: RandomSource,
    /// So long after an epoch begins, or is sealed, this process learns of it by itself.
    learns_after: Duration,
    /// Those that it learnt of in another way.
    learnt: Mutex<Option<Epochs>>,
}

impl SimJournal {
    /// A connection to what is stored in `world`.
    pub fn new(world: Arc<World>, process: Arc<Process>, random: RandomSource) -> Self {
        let memory = world.memory.clone();
        let learns_after = match world.plan.epochs.is_empty() {
            true => Duration::ZERO,
            false => Duration::from_millis(random.number(0..=LEARNS_WITHIN_MS)),
        };
        Self { world, process, memory, random, learns_after, learnt: Mutex::default() }
    }

    /// The epochs that this process knows.
    fn known(&self) -> Epochs {
        let by_itself = self.world.elapsed().checked_sub(self.learns_after);
        let by_itself = by_itself.and_then(|at| self.world.epochs.as_of(at));
        let learnt = self.learnt.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let later = by_itself.into_iter().chain(learnt).max_by_key(|epochs| {
            let sealed = epochs.all().iter().filter(|epoch| epoch.sealed).count();
            (epochs.shards(), sealed)
        });
        later.unwrap_or_else(|| Epochs::one(SHARDS))
    }

    /// The process was told of a place that it did not know.
    fn learn(&self, recorded: &Recorded) {
        if self.known().shards() <= recorded.position.shard {
            *self.learnt.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.memory.epochs());
        }
    }

    async fn read(&self) -> Result<(), ReadError> {
        self.process.crash_point().await;
        if self.world.strikes(&self.random, "journal cannot be read", self.world.plan.faults.unread) {
            sleep(Duration::from_millis(self.random.number(0..=500))).await;
            return Err(ReadError::Unavailable("fault".to_owned()));
        }
        Ok(())
    }
}

/// Stores a commit; unless it was stored before, the invariants are checked and the worker of the shard is woken.
async fn store(
    world: &Arc<World>,
    random: &RandomSource,
    commit: &Commit,
    known: &Epochs,
) -> Result<Recorded, AppendError> {
    let begun = world.memory.shard_of(&commit.stream_id);
    let before = world.memory.load(&commit.stream_id).await.map_or(0, |commits| commits.len());
    let recorded = world.memory.append_knowing(commit, known)?;
    if world.memory.load(&commit.stream_id).await.map_or(0, |commits| commits.len()) > before {
        let shard = recorded.position.shard;
        if begun.is_none() && shard != world.memory.epochs().current().shard_of(&commit.stream_id) {
            coverage::fault("stream begins in an epoch that is not the newest");
        }
        let is_where_it_was = begun.is_none_or(|begun| begun == shard);
        let is_open = !world.memory.epochs().is_sealed(shard);
        world.judge(require(is_where_it_was, "a stream stays in its shard", || format!("{recorded:?}")));
        world.judge(require(is_open, "a sealed epoch takes nothing", || format!("{recorded:?}")));
        world.committed(&recorded);
        wake(world, random, &recorded);
    }
    Ok(recorded)
}

fn wake(world: &Arc<World>, random: &RandomSource, recorded: &Recorded) {
    let copies =
        if world.strikes(random, "wake-up comes late", world.plan.faults.wake_ups) { random.number(1..=3) } else { 0 };
    if copies > 1 {
        coverage::fault("wake-up comes more than once");
    }
    if copies == 0 {
        world.shards.wake(recorded.position, &recorded.stream_id);
    }
    for _ in 0..copies {
        let after = Duration::from_millis(random.number(0..=6_000));
        let (world, position, stream_id) = (world.clone(), recorded.position, recorded.stream_id.clone());
        tokio::spawn(async move {
            sleep(after).await;
            world.shards.wake(position, &stream_id);
        });
    }
}

#[async_trait]
impl StreamStore for SimJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.process.crash_point().await;
        let (world, faults) = (&self.world, self.world.plan.faults);
        let what =
            || format!("{} {}", commit.stream_id.as_str().get(..12).unwrap_or_default(), commit.expected.version);
        if world.strikes(&self.random, "append is refused", faults.refused) {
            world.note(format!("fault: append refused {}", what()));
            return Err(AppendError::Unavailable("fault".to_owned()));
        }
        if world.draws(&self.random, faults.conflict) {
            let stored = self.memory.load(&commit.stream_id).await.unwrap_or_default();
            // A conflict about a commit that is stored would be a lie.
            if stored.iter().all(|stored| stored.commit_id != commit.commit_id) {
                coverage::fault("append conflicts");
                world.note(format!("fault: append conflicts {}", what()));
                return Err(AppendError::Conflict);
            }
        }
        if world.draws(&self.random, faults.stored_late) {
            let never = self.random.chance(300);
            coverage::fault(if never { "append is stored never" } else { "append is stored late" });
            world.note(format!("fault: append stored late {} never: {never}", what()));
            if never {
                sleep(ACKNOWLEDGED_WITHIN).await;
                return Err(AppendError::Unknown("fault".to_owned()));
            }
            let after = Duration::from_millis(self.random.number(1..=8_000));
            let (world, random, commit, known) = (world.clone(), self.random.clone(), commit.clone(), self.known());
            tokio::spawn(async move {
                sleep(after).await;
                let shard = world.memory.shard_of(&commit.stream_id);
                let shard = shard.unwrap_or_else(|| known.current().shard_of(&commit.stream_id));
                if !world.memory.epochs().is_sealed(shard) {
                    // Nobody learns whether its position is still free.
                    drop(store(&world, &random, &commit, &known).await);
                }
            });
            sleep(ACKNOWLEDGED_WITHIN).await;
            return Err(AppendError::Unknown("fault".to_owned()));
        }
        let stored = store(world, &self.random, commit, &self.known()).await;
        if let Ok(recorded) = &stored {
            self.learn(recorded);
        }
        self.process.crash_point().await;
        if stored.is_ok() && world.strikes(&self.random, "append is not acknowledged", faults.unacknowledged) {
            world.note(format!("fault: append not acknowledged {}", what()));
            sleep(ACKNOWLEDGED_WITHIN).await;
            return Err(AppendError::Unknown("fault".to_owned()));
        }
        stored
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.read().await?;
        if self.world.is_poisoned(stream_id) {
            coverage::fault("journal is unreadable for a time");
            return Err(ReadError::Unreadable {
                shard: self.world.shard_of(stream_id),
                sequence: 1,
                subject: None,
                reason: "fault".to_owned(),
            });
        }
        let stored = self.memory.load(stream_id).await?;
        if let Some(first) = stored.first() {
            self.learn(first);
        }
        Ok(stored)
    }
}

#[async_trait]
impl ShardLog for SimJournal {
    fn epochs(&self) -> Epochs {
        self.known()
    }

    async fn grown(&self, shards: u16) {
        if self.world.plan.epochs.is_empty() {
            pending::<()>().await;
        }
        while self.known().shards() <= shards {
            sleep(LOOK_EVERY).await;
        }
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.read().await?;
        let mut commits = self.memory.replay(shard, from, limit).await?;
        if self.world.strikes(&self.random, "replay ends before the head", self.world.plan.faults.stale) {
            let kept = self.random.number(0..=commits.len() as u64);
            commits.truncate(usize::try_from(kept).unwrap_or_default());
        }
        Ok(commits)
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.read().await?;
        self.memory.head(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.read().await?;
        if self.memory.head(shard).await? <= sequence {
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

#[async_trait]
impl ShardLeases for SimJournal {
    async fn work(&self, shard: u16, _owner: &str) -> Box<dyn ShardWorker> {
        self.process.crash_point().await;
        let contender = self.world.shards.join(shard, self.process.clone());
        Box::new(Worker { world: self.world.clone(), shard, contender, random: self.random.clone() })
    }
}

struct Worker {
    world: Arc<World>,
    shard: u16,
    contender: Arc<Contender>,
    random: RandomSource,
}

#[async_trait]
impl ShardWorker for Worker {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        self.contender.process.crash_point().await;
        if self.world.strikes(&self.random, "journal cannot be read", self.world.plan.faults.unread / 4) {
            return Err(ReadError::Unavailable("fault".to_owned()));
        }
        loop {
            if let Some(wake_up) = self.contender.pop() {
                return Ok(wake_up);
            }
            self.contender.filled.notified().await;
        }
    }

    async fn release(self: Box<Self>) {
        // Dropping gives the shard up.
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.world.shards.leave(self.shard, self.contender.id);
    }
}
