//! The read models as followers, rebuilds and readers share them: the projection store in use, how far each shard is, who
//! waits, and the alarms.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{OwnedMutexGuard, watch};
use tracing::{error, warn};

use events::{Epochs, StreamId};

use crate::{
    alarm::{Alarms, JournalAlarm},
    fault::Fault,
    rebuild_status::{RebuildProgress, RebuildStatus},
    shards::{Known, STARTING, ShardState, ShardStatus, Shards},
    store::Store,
    waiters::{Waiters, Waiting},
};

const LOCK: &str = "lock";

/// The read models of all payments and batches, and how far they follow the streams.
#[derive(Debug)]
pub(crate) struct ReadModel {
    root: PathBuf,
    store: RwLock<Arc<Store>>,
    /// Number of the newest generation that was begun.
    generation: AtomicU64,
    /// The generation that was begun beside the one in use, and is not finished: its number, and that of the other.
    unfinished: Mutex<Option<Unfinished>>,
    shards: Shards,
    waiters: Waiters,
    alarms: Mutex<Alarms>,
    /// The rebuild that is under way, or the last one.
    rebuild: Mutex<Option<RebuildStatus>>,
    // Last, so that it is let go after the database.
    _lock: File,
}

/// A shadow copy that nobody fills now.
#[derive(Debug, Clone, Copy)]
struct Unfinished {
    generation: u64,
    beside: u64,
}

/// The result of the swap of a rebuilt copy with the one in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swap {
    /// It is in use.
    Done,
    /// There are more shards by now, which it does not have.
    Grown,
    /// The copy that it was to follow is not in use any more.
    Replaced,
}

/// Why no directory was opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process works in the directory.
    #[error("projections directory {} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// The file system refuses.
    #[error("projections directory {} cannot be used: {source}", .directory.display())]
    Io {
        /// The directory.
        directory: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// Why the read model gives no answer. The journal has it: load the stream and use
/// [`PaymentView::fold`](crate::PaymentView::fold) or [`QuoteRequestView::fold`](crate::QuoteRequestView::fold).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The shard has not caught up with its stream, or is being built again.
    #[error("projection of shard {shard} is catching up with its stream")]
    CatchingUp {
        /// The shard.
        shard: u16,
    },
    /// The shard's stream cannot be read.
    #[error("projection of shard {shard} has stopped: {reason}")]
    Stopped {
        /// The shard.
        shard: u16,
        /// Why.
        reason: String,
    },
}

impl ReadModel {
    /// Opens the directory, or an empty database in the place of what cannot be used there. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] when another process holds the directory or the file system refuses it.
    pub(crate) fn open(directory: &Path, shards: u16, searched: bool) -> Result<Self, OpenError> {
        let refused = |source| OpenError::Io { directory: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(refused)?;
        let lock = File::create(directory.join(LOCK)).map_err(refused)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(directory.to_owned())),
            Err(TryLockError::Error(source)) => return Err(refused(source)),
        }
        let mut alarms = Alarms::open(directory).map_err(refused)?;
        let shards = Shards::new(shards);
        let store = Store::open(directory, shards.known().count(), searched, |lost| alarms.cry(lost));
        let (store, unfinished) = store.map_err(refused)?;
        let generation = AtomicU64::new(unfinished.unwrap_or_default().max(store.generation()));
        let unfinished = unfinished.map(|generation| Unfinished { generation, beside: store.generation() });
        Ok(Self {
            root: directory.to_owned(),
            store: RwLock::new(Arc::new(store)),
            generation,
            unfinished: Mutex::new(unfinished),
            shards,
            waiters: Waiters::new(),
            alarms: Mutex::new(alarms),
            rebuild: Mutex::default(),
            _lock: lock,
        })
    }

    /// Number of shards.
    pub(crate) fn shards(&self) -> u16 {
        self.known().count()
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        self.shards.known()
    }

    /// Updates the shards from the epochs that the journal knows now.
    pub(crate) fn learn(&self, epochs: &Epochs) {
        // Held, so that no copy takes the place of another without the shards of both being the same.
        let _in_use = self.store.write().unwrap_or_else(PoisonError::into_inner);
        self.shards.learn(epochs);
    }

    /// Stream sequence of the last commit of `shard` that is in the views; 0 before the shard has started.
    pub(crate) fn checkpoint(&self, shard: u16) -> u64 {
        self.known().get(shard).map_or(0, |shard| shard.status.borrow().checkpoint)
    }

    /// How far `shard` follows its stream.
    pub(crate) fn status(&self, shard: u16) -> ShardStatus {
        self.known().get(shard).map_or(STARTING, |shard| shard.status.borrow().clone())
    }

    /// The checkpoint of a shard that is live.
    pub(crate) fn live(&self, shard: u16) -> Result<u64, Unavailable> {
        let known = self.known();
        let Some(of_shard) = known.get(shard) else { return Err(Unavailable::CatchingUp { shard }) };
        let status = of_shard.status.borrow();
        match &status.state {
            ShardState::Live => Ok(status.checkpoint),
            ShardState::Starting | ShardState::CatchingUp => Err(Unavailable::CatchingUp { shard }),
            ShardState::Stopped { reason } => Err(Unavailable::Stopped { shard, reason: reason.clone() }),
        }
    }

    pub(crate) fn peek<T>(
        &self,
        shard: u16,
        read: impl FnOnce(&Store, u16) -> Result<Option<T>, Fault>,
    ) -> Result<Option<T>, Fault> {
        read(&self.store(), shard).inspect_err(|fault| self.report_fault(shard, fault))
    }

    /// Reports a fault of a shard's stored views: its follower checks everything that is stored before it is used again.
    pub(crate) fn report_fault(&self, shard: u16, fault: &Fault) {
        let known = self.known();
        let Some(at_fault) = known.get(shard) else { return };
        let first = at_fault.status.send_if_modified(|status| {
            let rechecks = matches!(status.state, ShardState::Live | ShardState::CatchingUp);
            if rechecks {
                *status = STARTING;
            }
            rechecks
        });
        if first {
            error!(shard, %fault, "PROJECTION CANNOT BE READ: checking the whole shard");
            at_fault.recheck.notify_one();
        }
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts an empty database in the place of `broken`, once however many shards ask for it. Blocks.
    pub(crate) fn replace(&self, broken: &Arc<Store>) -> io::Result<()> {
        let mut current = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&current, broken) {
            return Ok(());
        }
        *current = Arc::new(broken.successor(&self.root, self.next_generation())?);
        for shard in self.known().all() {
            shard.status.send_if_modified(|status| {
                let running = !status.has_stopped();
                if running {
                    *status = STARTING;
                }
                running
            });
            shard.recheck.notify_one();
        }
        drop(current);
        if let Err(error) = Store::discard(&self.root, broken.generation()) {
            warn!(%error, "files of the broken database remain until the next start");
        }
        Ok(())
    }

    fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A shadow copy of `current`: the one that was not finished, where it can be opened, else an empty one. Blocks.
    pub(crate) fn begin_shadow_copy(&self, current: &Store) -> io::Result<Store> {
        let unfinished = self.lock_unfinished().take();
        if let Some(Unfinished { generation, beside }) = unfinished {
            let resumed = if beside == current.generation() {
                current.resume_shadow_copy(&self.root, generation)
            } else {
                Err(io::Error::other("it was begun beside another"))
            };
            match resumed {
                Ok(resumed) => return Ok(resumed),
                Err(error) => warn!(%error, generation, "the copy of an interrupted rebuild is of no use"),
            }
            self.discard(generation);
        }
        current.shadow_copy(&self.root, self.next_generation())
    }

    /// Keeps a shadow copy that was not finished for the next rebuild.
    pub(crate) fn keep_unfinished(&self, shadow_copy: &Store) {
        let Some(beside) = shadow_copy.rebuilt_from() else { return };
        *self.lock_unfinished() = Some(Unfinished { generation: shadow_copy.generation(), beside });
    }

    fn lock_unfinished(&self) -> MutexGuard<'_, Option<Unfinished>> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `rebuilt`, which has everything that `current` has of the first `shards` shards, in its place. The caller holds
    /// the turns of all these. Blocks.
    pub(crate) fn swap(&self, current: &Arc<Store>, rebuilt: &Arc<Store>, shards: u16) -> Result<Swap, Fault> {
        let mut in_use = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&in_use, current) {
            return Ok(Swap::Replaced);
        }
        let known = self.known();
        if known.count() > shards {
            return Ok(Swap::Grown);
        }
        rebuilt.finish(&self.root)?;
        *in_use = Arc::clone(rebuilt);
        drop(in_use);
        for shard in known.all() {
            shard.moved.notify_one();
        }
        // Waiters look again, at the copy in use now.
        self.waiters.wake_all();
        Ok(Swap::Done)
    }

    /// Removes the files of a generation that is not in use. Blocks.
    pub(crate) fn discard(&self, generation: u64) {
        if let Err(error) = Store::discard(&self.root, generation) {
            warn!(%error, "files of a database that is not in use remain until the next start");
        }
    }

    /// The rebuilt copy that took the place of `store`.
    pub(crate) fn rebuilt_from(&self, store: &Arc<Store>) -> Option<Arc<Store>> {
        let current = self.store();
        (current.rebuilt_from() == Some(store.generation())).then_some(current)
    }

    /// The right to change the shard's views and status.
    pub(crate) async fn turn(&self, shard: u16) -> OwnedMutexGuard<()> {
        self.shards.get(shard).await.turn().await
    }

    /// Returns when a rebuilt copy took the place of the one in use.
    pub(crate) async fn moved(&self, shard: u16) {
        self.shards.get(shard).await.moved.notified().await;
    }

    /// What `shard` does, to be waited on.
    pub(crate) async fn watch(&self, shard: u16) -> watch::Receiver<ShardStatus> {
        self.shards.get(shard).await.status.subscribe()
    }

    /// Publishes what a follower of `store` knows; `false` when the database was replaced, and it knows nothing.
    pub(crate) fn publish_from(&self, store: &Arc<Store>, shard: u16, status: ShardStatus) -> bool {
        // Held while publishing, so that a replacement, which resets every status, comes before or after.
        let current = self.store.read().unwrap_or_else(PoisonError::into_inner);
        let same = Arc::ptr_eq(&current, store);
        if same {
            self.publish(shard, status);
        }
        same
    }

    pub(crate) fn publish(&self, shard: u16, status: ShardStatus) {
        let known = self.known();
        let Some(shard) = known.get(shard) else { return };
        shard.status.send_if_modified(|current| {
            let changed = *current != status;
            *current = status;
            changed
        });
    }

    pub(crate) fn stop(&self, shard: u16, reason: String) {
        error!(
            shard,
            reason, "PROJECTION HAS STOPPED: payments and batches of this shard are answered from the journal"
        );
        let checkpoint = self.checkpoint(shard);
        self.publish(shard, ShardStatus { checkpoint, state: ShardState::Stopped { reason } });
    }

    /// Returns when a fault of the stored views of the shard is reported, or its database was replaced.
    pub(crate) async fn recheck_requested(&self, shard: u16) {
        self.shards.get(shard).await.recheck.notified().await;
    }

    /// Enters a wait for the stream to change.
    pub(crate) fn wait_at<'a>(&'a self, stream_id: &'a StreamId) -> Waiting<'a> {
        self.waiters.enter(stream_id)
    }

    pub(crate) fn wake(&self, changed: &[StreamId]) {
        for stream_id in changed {
            self.waiters.wake(stream_id);
        }
    }

    pub(crate) fn lock_alarms(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises an alarm, before the evidence is given up. Blocks.
    pub(crate) fn raise(&self, alarm: JournalAlarm) {
        self.lock_alarms().cry(alarm);
    }

    pub(crate) fn lock_rebuild(&self) -> MutexGuard<'_, Option<RebuildStatus>> {
        self.rebuild.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shard of a rebuild that has nothing yet.
    pub(crate) fn to_rebuild(&self, shard: u16) -> RebuildProgress {
        RebuildProgress { shard, done: 0, total: self.checkpoint(shard) }
    }
}
