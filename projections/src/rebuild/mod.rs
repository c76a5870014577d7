//! Rebuild: all views are built again in a shadow copy, which then takes the place of the copy in use.
//!
//! The copy in use serves reads and follows the streams all the while. The shadow copy is filled from the first commit up to
//! the checkpoint of the other, the two are compared entry by entry, and then they are swapped while no follower applies
//! anything, so that no reader sees a view go back and no waiter misses a change. A difference means that the old copy was
//! wrong: the new one is the fold of the stream by definition.
//!
//! Until the swap the shadow copy is marked as unfinished on disk. Killed before, the process starts on the
//! old copy, and the next rebuild goes on with the other, if the same program runs it; killed after, it starts on the new
//! one. Meanwhile the disk holds both.

mod shard;

use std::{io, sync::Arc, time::Duration};

use chrono::Utc;
use futures::future::try_join_all;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use events::{CommitId, StreamId};
use journal::Journal;

use crate::{
    read_model::{ReadModel, Swap},
    rebuild_status::{RebuildError, RebuildPhase, RebuildStatus, Verdict},
    shards::ShardState,
    store::{Store, blocking},
};

use self::shard::ShardRebuild;

/// Pause before a stream that is away, or a shard that is not ready, is looked at again.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the last steps are begun anew because a stream was away or a shard was being checked.
const LAST_STEPS_MAX: u32 = 50;
/// How long readers of the old copy are waited for before its files are removed.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(10);

/// A rebuild that may run. While it exists there is no other.
#[derive(Debug)]
pub struct Rebuild {
    model: Arc<ReadModel>,
    id: String,
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        self.end(RebuildPhase::Failed { error: RebuildError::Stopped });
    }
}

impl Rebuild {
    /// Reserves the one rebuild that may run at a time.
    ///
    /// # Errors
    /// [`RebuildError::UnderWay`].
    pub(crate) fn begin(model: Arc<ReadModel>) -> Result<Self, RebuildError> {
        let mut slot = model.lock_rebuild();
        if let Some(RebuildStatus { started_at, ended_at: None, .. }) = &*slot {
            return Err(RebuildError::UnderWay(*started_at));
        }
        let id = CommitId::random().to_string();
        let shards = (0..model.shards()).map(|shard| model.to_rebuild(shard));
        *slot = Some(RebuildStatus {
            id: id.clone(),
            started_at: Utc::now(),
            ended_at: None,
            phase: RebuildPhase::Building,
            shards: shards.collect(),
        });
        drop(slot);
        Ok(Self { model, id })
    }

    /// What [`RebuildStatus::id`] says of it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Builds, compares, and puts the new copy in the place of the old one. [`Projections::run`](crate::Projections::run) has
    /// to run meanwhile, on the same journal.
    ///
    /// # Errors
    /// [`RebuildError`]; the old copy is in use then. What there is of the new one is kept for the next rebuild when the
    /// process is to stop, and removed otherwise.
    pub async fn run(
        self,
        journal: Arc<dyn Journal>,
        shutdown: CancellationToken,
    ) -> Result<Vec<Verdict>, RebuildError> {
        let outcome = match self.begin_copy(&*journal).await {
            // The copy is there or it is not: what stops the rebuild stops it before or after that, so that none is forgotten.
            Ok(copy) => match shutdown.run_until_cancelled(self.make(journal, copy)).await {
                Some(outcome) => outcome,
                None => Err(RebuildError::Stopped),
            },
            Err(error) => Err(error),
        };
        self.end(match &outcome {
            Ok(verdicts) => RebuildPhase::Done { verdicts: verdicts.clone() },
            Err(error) => RebuildPhase::Failed { error: error.clone() },
        });
        outcome
    }

    /// Begins the new copy, or opens the one that was not finished. Who stops waiting leaves it to the next rebuild.
    async fn begin_copy(&self, journal: &dyn Journal) -> Result<ShadowCopy, RebuildError> {
        let (theirs, ours) = (journal.shards(), self.model.shards());
        if theirs < ours {
            return Err(RebuildError::Shards { journal: theirs, projections: ours });
        }
        info!(id = self.id, "rebuild of the projections begins; until it ends they take twice the disk");
        let model = Arc::clone(&self.model);
        blocking_io(move || {
            let old = model.store();
            let new = Arc::new(model.begin_shadow_copy(&old)?);
            Ok(ShadowCopy {
                old,
                unfinished: Unfinished { model, store: Some(Arc::clone(&new)), is_of_use: true },
                new,
            })
        })
        .await
    }

    async fn make(&self, journal: Arc<dyn Journal>, copy: ShadowCopy) -> Result<Vec<Verdict>, RebuildError> {
        let ShadowCopy { old, new, mut unfinished } = copy;
        let verdicts = match self.fill_and_swap(&journal, &old, &new).await {
            Ok(verdicts) => verdicts,
            Err(error) => {
                unfinished.is_of_use = false;
                return Err(error);
            }
        };
        unfinished.in_use();
        self.report(&verdicts);
        release(Arc::clone(&self.model), old).await;
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
        let (from, shards) = (rebuilds.len() as u16, self.model.shards());
        if from == shards {
            return Ok(());
        }
        self.note(|status| {
            status.phase = RebuildPhase::Building;
            // At first some may be there from the beginning.
            let known = status.shards.len() as u16;
            status.shards.extend((known..shards).map(|shard| self.model.to_rebuild(shard)));
        });
        let rebuild = |shard| async move {
            let mut rebuild = ShardRebuild::begin(shard, Arc::clone(journal), new).await?;
            self.note(|status| status.shards[usize::from(shard)].done = rebuild.built.sequence);
            self.fill(new, &mut rebuild).await?;
            Ok::<_, RebuildError>(rebuild)
        };
        let mut more = try_join_all((from..shards).map(rebuild)).await?;
        self.note(|status| status.phase = RebuildPhase::Comparing);
        for rebuild in &mut more {
            rebuild.look(old, new).await;
        }
        rebuilds.append(&mut more);
        blocking(new, Store::flush).await?;
        Ok(())
    }

    /// Fills a shard up to where the copy in use stands, once that follows its stream or has stopped for good.
    async fn fill(&self, new: &Arc<Store>, rebuild: &mut ShardRebuild) -> Result<(), RebuildError> {
        let mut status = self.model.watch(rebuild.shard).await;
        loop {
            let (target, caught_up) = {
                let status = status.borrow_and_update();
                let caught_up = matches!(status.state, ShardState::Live | ShardState::Stopped { .. });
                (status.checkpoint, caught_up)
            };
            if rebuild.built.sequence < target {
                self.note(|status| status.shards[usize::from(rebuild.shard)].total = target);
                if !self.step(new, rebuild, target).await? {
                    tokio::time::sleep(PAUSE).await;
                }
            } else if caught_up {
                return Ok(());
            } else if status.changed().await.is_err() {
                return Err(RebuildError::Stopped);
            }
        }
    }

    /// Applies one page towards `target`; `false` when the stream does not have it for now.
    async fn step(&self, new: &Arc<Store>, rebuild: &mut ShardRebuild, target: u64) -> Result<bool, RebuildError> {
        let stepped = rebuild.step(new, target).await?;
        self.note(|status| status.shards[usize::from(rebuild.shard)].done = rebuild.built.sequence);
        Ok(stepped)
    }

    /// With all followers halted: fills what is still missing, compares the suspects, and swaps. `None` when that
    /// cannot be done at once, or there are more shards by now.
    async fn last_steps(
        &self,
        old: &Arc<Store>,
        new: &Arc<Store>,
        rebuilds: &mut [ShardRebuild],
    ) -> Result<Option<Vec<Verdict>>, RebuildError> {
        let model = &self.model;
        let mut turns = Vec::with_capacity(rebuilds.len());
        for rebuild in rebuilds.iter() {
            turns.push(model.turn(rebuild.shard).await);
        }
        for rebuild in rebuilds.iter_mut() {
            let status = model.status(rebuild.shard);
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
            let (model, old, new) = (Arc::clone(model), Arc::clone(old), Arc::clone(new));
            let shards = rebuilds.len() as u16;
            move || model.swap(&old, &new, shards)
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
        if let Some(status) = self.model.lock_rebuild().as_mut().filter(|status| status.id == self.id) {
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

/// The copy in use and the one that is to take its place.
struct ShadowCopy {
    old: Arc<Store>,
    new: Arc<Store>,
    unfinished: Unfinished,
}

/// A new copy that does not come into use: it is kept where only time was missing, and removed otherwise.
struct Unfinished {
    model: Arc<ReadModel>,
    store: Option<Arc<Store>>,
    is_of_use: bool,
}

impl Unfinished {
    fn in_use(mut self) {
        self.store = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It may be in use all the same, when the process was told to stop just then.
        if let Some(store) = self.store.take().filter(|store| !Arc::ptr_eq(store, &self.model.store())) {
            if self.is_of_use {
                self.model.keep_unfinished(&store);
                return;
            }
            let (model, generation) = (Arc::clone(&self.model), store.generation());
            drop(store);
            model.discard(generation);
        }
    }
}

/// Removes the files of the old copy once its last reader has let go of it.
async fn release(model: Arc<ReadModel>, old: Arc<Store>) {
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
        model.discard(generation);
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
    use journal::{Commit, Position, StreamStore, memory::MemoryJournal};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        service::Projections,
        view::{PaymentStatus, test_support::submission},
    };

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
        projections.model.store().falsify(0, &untrue);

        let rebuild = projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(Arc::new(journal.clone()), shutdown.clone()).await.unwrap();
        let streams = vec![StreamId::from(&payments[7])];
        assert_eq!(verdicts, [Verdict::Different { sequence: head, streams, count: 1 }]);
        assert_eq!(projections.get(&payments[7]).unwrap().as_ref(), Some(&truth));

        // A view that is true, beside a key that it does not have.
        projections.model.store().leave_key(0, &truth);
        assert!(projections.model.store().verify(0).is_err());
        let rebuild = projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(Arc::new(journal.clone()), shutdown.clone()).await.unwrap();
        let streams = vec![StreamId::from(&payments[7])];
        assert_eq!(verdicts, [Verdict::Different { sequence: head, streams, count: 1 }]);

        let rebuild = projections.begin_rebuild().unwrap();
        let verdicts = rebuild.run(Arc::new(journal), shutdown.clone()).await.unwrap();
        assert_eq!(verdicts, [Verdict::Equal { sequence: head, streams: 30 }]);
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }
}
