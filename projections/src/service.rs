//! The handle to the read models.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::{
    sync::{OwnedMutexGuard, watch},
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{error, warn};

use events::{Epochs, PaymentId, QuoteRequestId, StreamId};
use journal::Journal;
use sagas::ports::{OpenStreams, Transient};

use crate::{
    alarm::Alarms,
    follower::Follower,
    quote_request::QuoteRequestView,
    rebuild::RebuildStatus,
    shards::{Known, STARTING, ShardState, ShardStatus, Shards},
    store::{Fault, Store},
    view::PaymentView,
    waiters::Waiters,
};

/// How long [`OpenStreams::open_streams`] waits for the read model to get as far as it was asked.
const OPEN_STREAMS_WAIT_MAX: Duration = Duration::from_secs(10);
const LOCK: &str = "lock";

/// The read models of all payments and batches, and how far they follow the streams. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Projections {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    store: RwLock<Arc<Store>>,
    /// Number of the newest generation that was begun.
    generation: AtomicU64,
    shards: Shards,
    waiters: Waiters,
    alarms: Mutex<Alarms>,
    /// The rebuild that is under way, or the last one.
    rebuild: Mutex<Option<RebuildStatus>>,
    // Last, so that it is let go after the database.
    _lock: File,
}

/// A view, and where its stream lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<V> {
    /// The shard of the stream.
    pub shard: u16,
    /// The view.
    pub view: V,
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

/// Why [`Projections::run`] did not start.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The journal has fewer shards than the projections were opened with.
    #[error("the journal has {journal} shards, the projections were opened for {projections}")]
    Shards {
        /// Shards of the journal.
        journal: u16,
        /// Shards of the projections.
        projections: u16,
    },
}

/// Why the read model gives no answer. The journal has it: load the stream and use
/// [`PaymentView::fold`] or [`QuoteRequestView::fold`].
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

impl Projections {
    /// Opens the read models under `directory`, creating it when it is missing. A database that is damaged is moved aside
    /// with an error line, and an empty one takes its place; the same goes for one that was made from more shards than the
    /// journal has now. One from fewer is used: journals only grow.
    ///
    /// Blocks for as long as sled needs to recover; nothing is read or followed before [`Projections::run`].
    ///
    /// # Errors
    /// [`OpenError`] when another process holds the directory or the file system refuses it.
    pub fn open(directory: &Path, shards: u16) -> Result<Self, OpenError> {
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
        let store = Store::open(directory, shards.known().count(), |lost| alarms.cry(lost));
        let store = store.map_err(refused)?;
        let generation = AtomicU64::new(store.generation());
        let inner = Inner {
            root: directory.to_owned(),
            store: RwLock::new(Arc::new(store)),
            generation,
            shards,
            waiters: Waiters::new(),
            alarms: Mutex::new(alarms),
            rebuild: Mutex::default(),
            _lock: lock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Follows the journal, one task a shard, until `shutdown`, also in the shards that it gets meanwhile. A shard whose
    /// stream cannot be read stops with an error line, and the others go on.
    ///
    /// # Errors
    /// [`RunError`] when journal and projections do not fit each other.
    pub async fn run(&self, journal: Arc<dyn Journal>, shutdown: CancellationToken) -> Result<(), RunError> {
        let (ours, theirs) = (self.shards(), journal.shards());
        if theirs < ours {
            return Err(RunError::Shards { journal: theirs, projections: ours });
        }
        let follow = |shard| {
            let follower = Follower::new(self.clone(), Arc::clone(&journal), shard, shutdown.clone());
            let task = AbortOnDropHandle::new(tokio::spawn(follower.run()));
            async move {
                if let Err(error) = task.await {
                    self.stop(shard, format!("its task ended: {error}"));
                }
            }
        };
        let mut followers = FuturesUnordered::new();
        let mut followed = 0;
        while !shutdown.is_cancelled() {
            self.learn(&journal.epochs());
            followers.extend((followed..self.shards()).map(follow));
            followed = self.shards();
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = journal.grown(followed) => {}
                Some(()) = followers.next() => {}
            }
        }
        while followers.next().await.is_some() {}
        let store = self.store();
        if let Ok(Err(fault)) = tokio::task::spawn_blocking(move || store.flush()).await {
            warn!(%fault, "projections were not flushed; they will be caught up at the next start");
        }
        Ok(())
    }

    /// The view of a payment as far as its shard's checkpoint; `None` when no shard in which it may lie knows it.
    ///
    /// A commit that was acknowledged a moment ago may not be in it yet (see [`Projections::wait_for`]), so `None` alone
    /// does not prove that there is no such payment: the journal does. Reads sled inline, which takes microseconds.
    ///
    /// # Errors
    /// [`Unavailable`] unless the shards asked are live; a view that cannot be read makes its shard be built again.
    pub fn get(&self, payment_id: &PaymentId) -> Result<Option<PaymentView>, Unavailable> {
        Ok(self.find(payment_id)?.map(|found| found.view))
    }

    /// [`Projections::get`], with the shard in which the payment lies.
    ///
    /// # Errors
    /// As [`Projections::get`].
    pub fn find(&self, payment_id: &PaymentId) -> Result<Option<Located<PaymentView>>, Unavailable> {
        self.read(&payment_id.into(), |store, shard| store.payment(shard, payment_id))
    }

    /// The view of a batch, with the promises of [`Projections::get`].
    ///
    /// # Errors
    /// As [`Projections::get`].
    pub fn get_quote_request(&self, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Unavailable> {
        Ok(self.find_quote_request(id)?.map(|found| found.view))
    }

    /// [`Projections::get_quote_request`], with the shard in which the batch lies.
    ///
    /// # Errors
    /// As [`Projections::get`].
    pub fn find_quote_request(&self, id: &QuoteRequestId) -> Result<Option<Located<QuoteRequestView>>, Unavailable> {
        self.read(&id.into(), |store, shard| store.quote_request(shard, id))
    }

    /// How many batches collect quotes, as far as the read model knows: what was just opened, or lies in a shard that cannot
    /// be read now, is not among them. Reads sled inline, in time with their number.
    pub fn open_quote_requests(&self) -> usize {
        let store = self.store();
        let of_shard = |shard| store.open_quote_requests(shard).inspect_err(|fault| self.report_fault(shard, fault));
        (0..self.shards()).map(|shard| of_shard(shard).unwrap_or_default()).sum()
    }

    /// Whether a batch collects quotes, as far as the read model knows; `None` where it knows no such batch, or cannot say.
    pub fn quote_request_is_open(&self, id: &QuoteRequestId) -> Option<bool> {
        let known = self.read(&id.into(), |store, shard| store.quote_request_is_open(shard, id));
        known.ok().flatten().map(|known| known.view)
    }

    /// Stream sequence of the last commit of `shard` that is in the views; 0 before the shard has started.
    pub fn checkpoint(&self, shard: u16) -> u64 {
        self.known().get(shard).map_or(0, |shard| shard.status.borrow().checkpoint)
    }

    /// How far `shard` follows its stream.
    pub fn status(&self, shard: u16) -> ShardStatus {
        self.known().get(shard).map_or(STARTING, |shard| shard.status.borrow().clone())
    }

    /// Whether every shard is live that may still take something. What lies in the others is at rest, and is answered from
    /// the journal as long as they are not.
    ///
    /// # Errors
    /// [`Unavailable`] for the first shard that is not.
    pub fn ready(&self) -> Result<(), Unavailable> {
        self.known().open().try_for_each(|shard| self.live(shard))
    }

    /// Waits until the commit at `sequence` is in the views of `shard`, at most for `wait_max`, and says whether it is.
    /// Does not wait for a shard that has stopped, and does for one that is not known yet.
    pub async fn wait_for(&self, shard: u16, sequence: u64, wait_max: Duration) -> bool {
        let reached = async {
            let mut status = self.inner.shards.get(shard).await.status.subscribe();
            let status = status.wait_for(|status| status.reached(sequence) || status.has_stopped()).await;
            status.is_ok_and(|status| status.reached(sequence))
        };
        timeout(wait_max, reached).await.unwrap_or(false)
    }

    /// Waits until the payment's view is beyond `seen_version` (0 for a payment not yet seen), at most for `wait_max`,
    /// and returns it. Answers at once when it is so already.
    pub async fn changed(&self, payment_id: &PaymentId, seen_version: u64, wait_max: Duration) -> Option<PaymentView> {
        let read = |store: &Store, shard| {
            let view = store.payment(shard, payment_id)?;
            Ok(view.filter(|view| view.version > seen_version))
        };
        self.await_news(&payment_id.into(), wait_max, read).await
    }

    /// [`Projections::changed`] for a batch.
    pub async fn quote_request_changed(
        &self,
        id: &QuoteRequestId,
        seen_version: u64,
        wait_max: Duration,
    ) -> Option<QuoteRequestView> {
        let read = |store: &Store, shard| {
            let view = store.quote_request(shard, id)?;
            Ok(view.filter(|view| view.version > seen_version))
        };
        self.await_news(&id.into(), wait_max, read).await
    }

    /// The rebuild that is under way, or the last one of this process.
    pub fn rebuild_status(&self) -> Option<RebuildStatus> {
        self.lock_rebuild().clone()
    }

    pub(crate) fn lock_alarms(&self) -> MutexGuard<'_, Alarms> {
        self.inner.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lock_rebuild(&self) -> MutexGuard<'_, Option<RebuildStatus>> {
        self.inner.rebuild.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `read` finds in one of the shards in which the stream may lie. It lies in one of them at most.
    fn read<T>(
        &self,
        stream_id: &StreamId,
        read: impl Fn(&Store, u16) -> Result<Option<T>, Fault>,
    ) -> Result<Option<Located<T>>, Unavailable> {
        let mut missing = None;
        for shard in self.known().of(stream_id) {
            match self.read_in(shard, &read) {
                Ok(Some(view)) => return Ok(Some(Located { shard, view })),
                Ok(None) => {}
                Err(unavailable) => missing = missing.or(Some(unavailable)),
            }
        }
        missing.map_or(Ok(None), Err)
    }

    fn read_in<T>(
        &self,
        shard: u16,
        read: impl FnOnce(&Store, u16) -> Result<Option<T>, Fault>,
    ) -> Result<Option<T>, Unavailable> {
        self.live(shard)?;
        let view = self.peek(shard, read).map_err(|_| Unavailable::CatchingUp { shard })?;
        // Again, because the shard may have been emptied in between.
        self.live(shard)?;
        Ok(view)
    }

    /// What `read` finds, waiting for it with each change of the stream.
    async fn await_news<T>(
        &self,
        stream_id: &StreamId,
        wait_max: Duration,
        read: impl Fn(&Store, u16) -> Result<Option<T>, Fault>,
    ) -> Option<T> {
        let deadline = Instant::now() + wait_max;
        let waiting = self.inner.waiters.enter(stream_id);
        loop {
            let mut notified = pin!(waiting.notify().notified());
            notified.as_mut().enable();
            // A view beyond what was seen is news even while the shard is catching up.
            let news = self.known().of(stream_id).find_map(|shard| self.peek(shard, &read).ok().flatten());
            if news.is_some() {
                return news;
            }
            timeout_at(deadline, notified).await.ok()?;
        }
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.known().count()
    }

    fn known(&self) -> Arc<Known> {
        self.inner.shards.known()
    }

    /// Updates the shards from the epochs that the journal knows now.
    pub(crate) fn learn(&self, epochs: &Epochs) {
        // Held, so that no copy takes the place of another without the shards of both being the same.
        let _in_use = self.inner.store.write().unwrap_or_else(PoisonError::into_inner);
        self.inner.shards.learn(epochs);
    }

    pub(crate) fn live(&self, shard: u16) -> Result<(), Unavailable> {
        let known = self.known();
        let Some(of_shard) = known.get(shard) else { return Err(Unavailable::CatchingUp { shard }) };
        match &of_shard.status.borrow().state {
            ShardState::Live => Ok(()),
            ShardState::Starting | ShardState::CatchingUp => Err(Unavailable::CatchingUp { shard }),
            ShardState::Stopped { reason } => Err(Unavailable::Stopped { shard, reason: reason.clone() }),
        }
    }

    fn peek<T>(
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
            let doubted = matches!(status.state, ShardState::Live | ShardState::CatchingUp);
            if doubted {
                *status = STARTING;
            }
            doubted
        });
        if first {
            error!(shard, %fault, "PROJECTION CANNOT BE READ: checking the whole shard");
            at_fault.recheck.notify_one();
        }
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.inner.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts an empty database in the place of `broken`, once however many shards ask for it. Blocks.
    pub(crate) fn replace(&self, broken: &Arc<Store>) -> io::Result<()> {
        let mut current = self.inner.store.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&current, broken) {
            return Ok(());
        }
        *current = Arc::new(broken.successor(&self.inner.root, self.next_generation())?);
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
        if let Err(error) = Store::discard(&self.inner.root, broken.generation()) {
            warn!(%error, "files of the broken database remain until the next start");
        }
        Ok(())
    }

    fn next_generation(&self) -> u64 {
        self.inner.generation.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Begins an empty shadow copy of `current`. Blocks.
    pub(crate) fn begin_shadow_copy(&self, current: &Store) -> io::Result<Store> {
        current.shadow_copy(&self.inner.root, self.next_generation())
    }

    /// Puts `rebuilt`, which has everything that `current` has of the first `shards` shards, in its place. The caller holds
    /// the turns of all these. Blocks.
    pub(crate) fn swap(&self, current: &Arc<Store>, rebuilt: &Arc<Store>, shards: u16) -> Result<Swap, Fault> {
        let mut in_use = self.inner.store.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&in_use, current) {
            return Ok(Swap::Replaced);
        }
        let known = self.known();
        if known.count() > shards {
            return Ok(Swap::Grown);
        }
        rebuilt.finish(&self.inner.root)?;
        *in_use = Arc::clone(rebuilt);
        drop(in_use);
        for shard in known.all() {
            shard.moved.notify_one();
        }
        // Waiters look again, at the copy in use now.
        self.inner.waiters.wake_all();
        Ok(Swap::Done)
    }

    /// Removes the files of a generation that is not in use. Blocks.
    pub(crate) fn discard(&self, generation: u64) {
        if let Err(error) = Store::discard(&self.inner.root, generation) {
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
        self.inner.shards.get(shard).await.turn().await
    }

    /// Returns when a rebuilt copy took the place of the one in use.
    pub(crate) async fn moved(&self, shard: u16) {
        self.inner.shards.get(shard).await.moved.notified().await;
    }

    /// What `shard` does, to be waited on.
    pub(crate) async fn watch(&self, shard: u16) -> watch::Receiver<ShardStatus> {
        self.inner.shards.get(shard).await.status.subscribe()
    }

    /// Publishes what a follower of `store` knows; `false` when the database was replaced, and it knows nothing.
    pub(crate) fn publish_from(&self, store: &Arc<Store>, shard: u16, status: ShardStatus) -> bool {
        // Held while publishing, so that a replacement, which resets every status, comes before or after.
        let current = self.inner.store.read().unwrap_or_else(PoisonError::into_inner);
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
    pub(crate) async fn doubted(&self, shard: u16) {
        self.inner.shards.get(shard).await.recheck.notified().await;
    }

    pub(crate) fn wake(&self, changed: &[StreamId]) {
        for stream_id in changed {
            self.inner.waiters.wake(stream_id);
        }
    }
}

#[async_trait]
impl OpenStreams for Projections {
    async fn open_streams(&self, shard: u16, as_of: u64) -> Result<Vec<StreamId>, Transient> {
        if !self.wait_for(shard, as_of, OPEN_STREAMS_WAIT_MAX).await {
            let status = self.status(shard);
            return Err(Transient::unreachable(format!("projection of shard {shard} is not at {as_of}: {status:?}")));
        }
        let store = self.store();
        let read = tokio::task::spawn_blocking(move || store.open_streams(shard)).await;
        let read = read.map_err(|error| Transient::unreachable(format!("what is open in shard {shard}: {error}")))?;
        read.map_err(|fault| {
            self.report_fault(shard, &fault);
            Transient::unreachable(format!("what is open in shard {shard}: {fault}"))
        })
    }
}

#[cfg(test)]
mod tests;
