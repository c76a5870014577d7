//! Rebuild: all views are built again in a shadow copy, which then takes the place of the copy in use.
//!
//! The copy in use serves reads and follows the streams all the while. The shadow copy is filled from the first commit up to
//! the checkpoint of the other, the two are compared entry by entry, and then they are swapped while no follower applies
//! anything, so that no reader sees a view go back and no waiter misses a change. A difference means that the old copy was
//! wrong: the new one is the fold of the stream by definition.
//!
//! Until the swap the shadow copy is marked as unfinished on disk. Killed before, the process starts on the
//! old copy and removes the other; killed after, it starts on the new one. Meanwhile the disk holds both.

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

use chrono::Utc;
use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use events::{CommitId, StreamId, time::Timestamp};
use journal::{Journal, ReadError};

use crate::{
    follower::{PAGE_COMMITS, blocking},
    prefetch::Prefetch,
    service::{Projections, Swap},
    shards::ShardState,
    store::{Checkpoint, Fault, Store},
    unreadable::{self, Next},
};

/// Streams of a shard that are named when they differ; more are counted.
const NAMED_MAX: usize = 20;
/// Pause before a stream that is away, or a shard that is not ready, is looked at again.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the last steps are begun anew because a stream was away or a shard was being checked.
const LAST_STEPS_MAX: u32 = 50;
/// How long readers of the old copy are waited for before its files are removed.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Why the views were not, or are not being, built again. The copy in use stays in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// One is under way already.
    #[error("a rebuild is under way already, since {}", .0.format("%H:%M:%S"))]
    UnderWay(Timestamp),
    /// The journal has fewer shards than the projections.
    #[error("the journal has {journal} shards, the projections were opened for {projections}")]
    Shards {
        /// Shards of the journal.
        journal: u16,
        /// Shards of the projections.
        projections: u16,
    },
    /// The new copy cannot be written.
    #[error("the new copy cannot be written: {0}")]
    Storage(String),
    /// A stream cannot be read.
    #[error("{0}")]
    Stream(String),
    /// The copy in use failed meanwhile, and an empty one took its place.
    #[error("the copy in use failed meanwhile and is being built again by itself")]
    Replaced,
    /// The stream or the shards were not ready for the last step for too long.
    #[error("the two copies could not change places: {0}")]
    Unsettled(String),
    /// The process is to stop.
    #[error("the gateway was stopped")]
    Stopped,
}

impl From<Fault> for RebuildError {
    fn from(fault: Fault) -> Self {
        Self::Storage(fault.to_string())
    }
}

/// The verdict of the comparison of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Both copies are the same, entry by entry.
    Equal {
        /// Stream sequence that both were at.
        sequence: u64,
        /// Payments and batches compared.
        streams: u64,
    },
    /// The old copy was wrong.
    Different {
        /// Stream sequence that both were at.
        sequence: u64,
        /// Payments and batches that the old copy showed wrongly or not at all; a bounded number of them.
        streams: Vec<StreamId>,
        /// How many there are; 0 when only the old copy's own accounts were wrong.
        count: u64,
    },
    /// There was nothing to compare with.
    NotCompared {
        /// Why.
        reason: String,
    },
}

/// How far a shard of the new copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildProgress {
    /// The shard.
    pub shard: u16,
    /// Commits applied.
    pub done: u64,
    /// Commits there are, as far as known.
    pub total: u64,
}

/// The phase of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebuildPhase {
    /// The new copy is filled.
    Building,
    /// The copies are compared.
    Comparing,
    /// The new copy is in use.
    Done {
        /// The verdict on each shard, in their order.
        verdicts: Vec<Verdict>,
    },
    /// The old copy stays in use.
    Failed {
        /// Why.
        error: RebuildError,
    },
}

/// A rebuild, under way or over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildStatus {
    /// Tells it from others.
    pub id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; absent while it is under way.
    pub ended_at: Option<Timestamp>,
    /// Its phase, or its end.
    pub phase: RebuildPhase,
    /// How far each shard is.
    pub shards: Vec<RebuildProgress>,
}

/// A rebuild that may run. While it exists there is no other.
#[derive(Debug)]
pub struct Rebuild {
    projections: Projections,
    id: String,
}

/// The rebuild of one shard.
struct ShardRebuild {
    shard: u16,
    journal: Arc<dyn Journal>,
    prefetch: Prefetch,
    built: Checkpoint,
    /// Streams that differed at a first look, when one copy may have been ahead of the other.
    suspects: BTreeSet<StreamId>,
    /// Streams that moved after that look began.
    touched: BTreeSet<StreamId>,
    compared: u64,
    /// Why the old copy could not be read.
    unreadable: Option<String>,
    note_touched: bool,
}

impl Projections {
    /// Reserves the one rebuild that may run at a time; [`Rebuild::run`] runs it.
    ///
    /// # Errors
    /// [`RebuildError::UnderWay`].
    pub fn begin_rebuild(&self) -> Result<Rebuild, RebuildError> {
        let mut slot = self.lock_rebuild();
        if let Some(RebuildStatus { started_at, ended_at: None, .. }) = &*slot {
            return Err(RebuildError::UnderWay(*started_at));
        }
        let id = CommitId::random().to_string();
        let shards = (0..self.shards()).map(|shard| self.to_rebuild(shard));
        *slot = Some(RebuildStatus {
            id: id.clone(),
            started_at: Utc::now(),
            ended_at: None,
            phase: RebuildPhase::Building,
            shards: shards.collect(),
        });
        Ok(Rebuild { projections: self.clone(), id })
    }

    fn to_rebuild(&self, shard: u16) -> RebuildProgress {
        RebuildProgress { shard, done: 0, total: self.checkpoint(shard) }
    }
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        self.end(RebuildPhase::Failed { error: RebuildError::Stopped });
    }
}

impl Rebuild {
    /// What [`RebuildStatus::id`] says of it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Builds, compares, and puts the new copy in the place of the old one. [`Projections::run`] has to run meanwhile,
    /// on the same journal.
    ///
    /// # Errors
    /// [`RebuildError`]; the old copy is in use then, and nothing is left of the new one.
    pub async fn run(
        self,
        journal: Arc<dyn Journal>,
        shutdown: CancellationToken,
    ) -> Result<Vec<Verdict>, RebuildError> {
        let outcome = match shutdown.run_until_cancelled(self.make(journal)).await {
            Some(outcome) => outcome,
            None => Err(RebuildError::Stopped),
        };
        self.end(match &outcome {
            Ok(verdicts) => RebuildPhase::Done { verdicts: verdicts.clone() },
            Err(error) => RebuildPhase::Failed { error: error.clone() },
        });
        outcome
    }

    async fn make(&self, journal: Arc<dyn Journal>) -> Result<Vec<Verdict>, RebuildError> {
        let projections = &self.projections;
        let (theirs, ours) = (journal.shards(), projections.shards());
        if theirs < ours {
            return Err(RebuildError::Shards { journal: theirs, projections: ours });
        }
        info!(id = self.id, "rebuild of the projections begins; until it ends they take twice the disk");
        let old = projections.store();
        let made = blocking_io({
            let (projections, old) = (projections.clone(), Arc::clone(&old));
            move || projections.begin_shadow_copy(&old)
        });
        let new = Arc::new(made.await?);
        let unfinished = Unfinished { projections, store: Some(Arc::clone(&new)) };
        let verdicts = self.fill_and_swap(&journal, &old, &new).await?;
        unfinished.in_use();
        self.report(&verdicts);
        release(projections.clone(), old).await;
        Ok(verdicts)
    }

    async fn fill_and_swap(
        &self,
        journal: &Arc<dyn Journal>,
        old: &Arc<Store>,
        new: &Arc<Store>,
    ) -> Result<Vec<Verdict>, RebuildError> {
        let mut rebuilds = Vec::new();
        for _ in 0..LAST_STEPS_MAX {
            self.add_shards(journal, old, new, &mut rebuilds).await?;
            for rebuild in &mut rebuilds {
                self.fill(new, rebuild).await?;
            }
            if let Some(verdicts) = self.last_steps(old, new, &mut rebuilds).await? {
                return Ok(verdicts);
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(RebuildError::Unsettled("a stream was away, or a shard was being checked, again and again".to_owned()))
    }

    /// Fills and compares the shards that are not in `rebuilds`: at first all, and later those that the journal got
    /// meanwhile.
    async fn add_shards(
        &self,
        journal: &Arc<dyn Journal>,
        old: &Arc<Store>,
        new: &Arc<Store>,
        rebuilds: &mut Vec<ShardRebuild>,
    ) -> Result<(), RebuildError> {
        let (from, shards) = (rebuilds.len() as u16, self.projections.shards());
        if from == shards {
            return Ok(());
        }
        self.note(|status| {
            status.phase = RebuildPhase::Building;
            // At first some may be there from the beginning.
            let known = status.shards.len() as u16;
            status.shards.extend((known..shards).map(|shard| self.projections.to_rebuild(shard)));
        });
        let rebuild = |shard| async move {
            let mut rebuild = ShardRebuild::new(shard, Arc::clone(journal));
            self.fill(new, &mut rebuild).await?;
            Ok::<_, RebuildError>(rebuild)
        };
        let mut more = try_join_all((from..shards).map(rebuild)).await?;
        self.note(|status| status.phase = RebuildPhase::Comparing);
        for rebuild in &mut more {
            self.look(old, new, rebuild).await;
        }
        rebuilds.append(&mut more);
        blocking(new, Store::flush).await?;
        Ok(())
    }

    /// Fills a shard up to where the copy in use stands, once that follows its stream or has stopped for good.
    async fn fill(&self, new: &Arc<Store>, rebuild: &mut ShardRebuild) -> Result<(), RebuildError> {
        let mut status = self.projections.watch(rebuild.shard).await;
        loop {
            let (target, settled) = {
                let status = status.borrow_and_update();
                let settled = matches!(status.state, ShardState::Live | ShardState::Stopped { .. });
                (status.checkpoint, settled)
            };
            if rebuild.built.sequence < target {
                self.note(|status| status.shards[usize::from(rebuild.shard)].total = target);
                if !self.step(new, rebuild, target).await? {
                    tokio::time::sleep(PAUSE).await;
                }
            } else if settled {
                return Ok(());
            } else if status.changed().await.is_err() {
                return Err(RebuildError::Stopped);
            }
        }
    }

    /// Applies one page towards `target`; `false` when the stream does not have it for now.
    async fn step(&self, new: &Arc<Store>, rebuild: &mut ShardRebuild, target: u64) -> Result<bool, RebuildError> {
        let shard = rebuild.shard;
        // Sequences have no gaps, so this many commits reach no further than the target.
        let limit = |from: u64| usize::try_from(target + 1 - from).unwrap_or(PAGE_COMMITS).min(PAGE_COMMITS);
        let from = rebuild.built.sequence + 1;
        let read = match rebuild.prefetch.take(from, limit(from)).await {
            Some(next) => Ok(next),
            None => unreadable::next(rebuild.journal.as_ref(), shard, from, limit(from)).await,
        };
        let next = match read {
            Ok(Next::Commits { page, .. }) if page.is_empty() => return Ok(false),
            Ok(next) => next,
            Err(ReadError::Unavailable(reason)) => {
                warn!(shard, reason, "the rebuild waits for its stream");
                return Ok(false);
            }
            Err(error @ ReadError::Unreadable { .. }) => return Err(RebuildError::Stream(error.to_string())),
        };
        if let Some(behind) = next.behind().filter(|behind| *behind <= target) {
            rebuild.prefetch.begin(behind, limit(behind));
        }
        let applied = blocking(new, move |store| match next {
            Next::Commits { page, .. } => store.apply_what_follows(shard, &page),
            Next::Unreadable(unreadable) => store.step_over(shard, &unreadable),
        });
        let applied = applied.await?;
        rebuild.built = applied.checkpoint;
        if rebuild.note_touched {
            rebuild.touched.extend(applied.changed);
        }
        self.note(|status| status.shards[usize::from(shard)].done = rebuild.built.sequence);
        Ok(true)
    }

    /// Compares the copies while both move: what differs has to be looked at again, and so has what moves from here on.
    async fn look(&self, old: &Arc<Store>, new: &Arc<Store>, rebuild: &mut ShardRebuild) {
        rebuild.note_touched = true;
        let (shard, old) = (rebuild.shard, Arc::clone(old));
        match blocking(new, move |new| new.differences(&old, shard)).await {
            Ok((suspects, compared)) => (rebuild.suspects, rebuild.compared) = (suspects, compared),
            Err(fault) => rebuild.unreadable = Some(fault.to_string()),
        }
    }

    /// With all followers halted: fills what is still missing, compares the suspects, and swaps. `None` when that
    /// cannot be done at once, or there are more shards by now.
    async fn last_steps(
        &self,
        old: &Arc<Store>,
        new: &Arc<Store>,
        rebuilds: &mut [ShardRebuild],
    ) -> Result<Option<Vec<Verdict>>, RebuildError> {
        let projections = &self.projections;
        let mut turns = Vec::with_capacity(rebuilds.len());
        for rebuild in rebuilds.iter() {
            turns.push(projections.turn(rebuild.shard).await);
        }
        for rebuild in rebuilds.iter_mut() {
            let status = projections.status(rebuild.shard);
            if status.state == ShardState::Starting {
                return Ok(None);
            }
            while rebuild.built.sequence < status.checkpoint {
                if !self.step(new, rebuild, status.checkpoint).await? {
                    return Ok(None);
                }
            }
        }
        let mut verdicts = Vec::with_capacity(rebuilds.len());
        for rebuild in rebuilds.iter() {
            verdicts.push(rebuild.judge(old, new).await);
        }
        let swapped = tokio::task::spawn_blocking({
            let (projections, old, new) = (projections.clone(), Arc::clone(old), Arc::clone(new));
            let shards = rebuilds.len() as u16;
            move || projections.swap(&old, &new, shards)
        });
        let swapped = swapped.await.map_err(|error| RebuildError::Storage(error.to_string()))??;
        drop(turns);
        match swapped {
            Swap::Done => Ok(Some(verdicts)),
            Swap::Grown => Ok(None),
            Swap::Replaced => Err(RebuildError::Replaced),
        }
    }

    fn note(&self, change: impl FnOnce(&mut RebuildStatus)) {
        if let Some(status) = self.projections.lock_rebuild().as_mut().filter(|status| status.id == self.id) {
            change(status);
        }
    }

    /// Ends it, once.
    fn end(&self, phase: RebuildPhase) {
        self.note(|status| {
            if status.ended_at.is_none() {
                if let RebuildPhase::Failed { error } = &phase {
                    error!(id = status.id, %error, "rebuild of the projections failed; the copy in use stays in use");
                }
                status.ended_at = Some(Utc::now());
                status.phase = phase;
            }
        });
    }

    fn report(&self, verdicts: &[Verdict]) {
        for (shard, verdict) in verdicts.iter().enumerate() {
            match verdict {
                Verdict::Equal { sequence, streams } => {
                    info!(shard, sequence, streams, "rebuilt projection equals the one it replaces");
                }
                Verdict::Different { sequence, streams, count } => {
                    let streams: Vec<_> = streams.iter().map(StreamId::as_str).collect();
                    error!(shard, sequence, count, ?streams, "PROJECTION WAS WRONG: the rebuilt one took its place");
                }
                Verdict::NotCompared { reason } => {
                    warn!(shard, reason, "rebuilt projection could not be compared with the one it replaces");
                }
            }
        }
    }
}

impl ShardRebuild {
    fn new(shard: u16, journal: Arc<dyn Journal>) -> Self {
        Self {
            shard,
            prefetch: Prefetch::new(Arc::clone(&journal), shard),
            journal,
            built: Checkpoint::default(),
            suspects: BTreeSet::new(),
            touched: BTreeSet::new(),
            compared: 0,
            unreadable: None,
            note_touched: false,
        }
    }

    /// The verdict, while neither copy moves.
    async fn judge(&self, old: &Arc<Store>, new: &Arc<Store>) -> Verdict {
        let (shard, sequence) = (self.shard, self.built.sequence);
        if let Some(reason) = &self.unreadable {
            return Verdict::NotCompared { reason: format!("the old copy cannot be read: {reason}") };
        }
        let suspects: Vec<StreamId> = self.suspects.union(&self.touched).cloned().collect();
        let other = Arc::clone(old);
        let compared = blocking(new, move |new| {
            let stored = other.checkpoint(shard)?;
            let mut differ = Vec::new();
            for stream_id in suspects {
                if !new.agrees(&other, shard, &stream_id)? {
                    differ.push(stream_id);
                }
            }
            Ok((stored, differ))
        });
        match compared.await {
            Err(fault) => Verdict::NotCompared { reason: format!("the old copy cannot be read: {fault}") },
            Ok((stored, _)) if stored.sequence != sequence => {
                let at = stored.sequence;
                Verdict::NotCompared {
                    reason: format!("the old copy was at {at}, being built again, the new one at {sequence}"),
                }
            }
            Ok((stored, differ)) if differ.is_empty() && stored == self.built => {
                Verdict::Equal { sequence, streams: self.compared }
            }
            Ok((_, mut streams)) => {
                let count = streams.len() as u64;
                streams.truncate(NAMED_MAX);
                Verdict::Different { sequence, streams, count }
            }
        }
    }
}

/// A new copy that is removed unless it comes into use.
struct Unfinished<'a> {
    projections: &'a Projections,
    store: Option<Arc<Store>>,
}

impl Unfinished<'_> {
    fn in_use(mut self) {
        self.store = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // It may be in use all the same, when the process was told to stop just then.
        if let Some(store) = self.store.take().filter(|store| !Arc::ptr_eq(store, &self.projections.store())) {
            let (projections, generation) = (self.projections.clone(), store.generation());
            drop(store);
            projections.discard(generation);
        }
    }
}

/// Removes the files of the old copy once its last reader has let go of it.
async fn release(projections: Projections, old: Arc<Store>) {
    let generation = old.generation();
    let released = async {
        while Arc::strong_count(&old) > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(RELEASE_WAIT_MAX, released).await.is_err() {
        warn!(generation, "the old projections are still being read");
    }
    let removed = tokio::task::spawn_blocking(move || {
        drop(old);
        projections.discard(generation);
    });
    if let Err(error) = removed.await {
        warn!(generation, %error, "the old projections' files remain until the next start");
    }
}

async fn blocking_io<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, RebuildError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| RebuildError::Storage(error.to_string()))?;
    done.map_err(|error| RebuildError::Storage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use events::PaymentId;
    use journal::{Commit, Position, memory::MemoryJournal};
    use tempfile::TempDir;

    use super::*;
    use crate::view::{PaymentStatus, test_support::submission};
    use journal::StreamStore;

    #[tokio::test]
    async fn a_copy_that_was_wrong_is_named_and_replaced() {
        let (directory, journal) = (TempDir::new().unwrap(), MemoryJournal::new(1));
        let payments: Vec<_> = (0..30).map(|number| PaymentId::derive("payer", &number.to_string())).collect();
        let mut head = 0;
        for payment_id in &payments {
            let commit = Commit {
                stream_id: payment_id.into(),
                expected: Position::START,
                commit_id: CommitId::random(),
                events: vec![submission(payment_id).into()],
                correlation: "test".to_owned(),
                causation: "test".to_owned(),
            };
            head = journal.append(&commit).await.unwrap().position.sequence;
        }
        let projections = Projections::open(directory.path(), 1).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn({
            let (projections, journal, shutdown) = (projections.clone(), Arc::new(journal.clone()), shutdown.clone());
            async move { projections.run(journal, shutdown).await }
        });
        assert!(projections.wait_for(0, head, Duration::from_secs(60)).await);
        let truth = projections.get(&payments[7]).unwrap().unwrap();
        // Well formed, with the right number of commits, and untrue: no check of one copy alone can find it.
        let mut untrue = truth.clone();
        untrue.status = PaymentStatus::Completed;
        projections.store().falsify(0, &untrue);

        let rebuild = projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(Arc::new(journal.clone()), shutdown.clone()).await.unwrap();
        let streams = vec![StreamId::from(&payments[7])];
        assert_eq!(verdicts, [Verdict::Different { sequence: head, streams, count: 1 }]);
        assert_eq!(projections.get(&payments[7]).unwrap(), Some(truth));

        let rebuild = projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(Arc::new(journal), shutdown.clone()).await.unwrap();
        assert_eq!(verdicts, [Verdict::Equal { sequence: head, streams: 30 }]);
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }
}
