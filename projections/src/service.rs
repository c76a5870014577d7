//! The handle to the read models.

use std::{io, path::Path, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::warn;

use events::{PaymentId, QuoteRequestId, StreamId};
use journal::Journal;
use sagas::ports::{OpenStreams, Transient};

use crate::{
    alarm::JournalAlarm,
    fault::Fault,
    follower::Follower,
    quote_request::QuoteRequestView,
    read_model::{OpenError, ReadModel, Unavailable},
    rebuild::Rebuild,
    rebuild_status::{RebuildError, RebuildStatus},
    shards::ShardStatus,
    store::Store,
    view::PaymentView,
};

/// How long [`OpenStreams::open_streams`] waits for the read model to get as far as it was asked.
const OPEN_STREAMS_WAIT_MAX: Duration = Duration::from_secs(10);

/// The read models of all payments and batches, and how far they follow the streams. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Projections {
    pub(crate) model: Arc<ReadModel>,
}

/// A view, and where its stream lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<V> {
    /// The shard of the stream.
    pub shard: u16,
    /// Stream sequence of a commit of the shard up to which everything of the stream is in the view.
    pub as_of: u64,
    /// The view.
    pub view: V,
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
        Ok(Self { model: Arc::new(ReadModel::open(directory, shards, false)?) })
    }

    /// As [`Projections::open`], with the index behind [`Projections::search`], which makes read models twice as dear to build and
    /// half again as large. Where they were without it, or are to be without it again, they are built anew.
    ///
    /// # Errors
    /// As [`Projections::open`].
    pub fn open_searched(directory: &Path, shards: u16) -> Result<Self, OpenError> {
        Ok(Self { model: Arc::new(ReadModel::open(directory, shards, true)?) })
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
            let follower = Follower::new(Arc::clone(&self.model), Arc::clone(&journal), shard, shutdown.clone());
            let task = AbortOnDropHandle::new(tokio::spawn(follower.run()));
            async move {
                if let Err(error) = task.await {
                    self.model.stop(shard, format!("its task ended: {error}"));
                }
            }
        };
        let mut followers = FuturesUnordered::new();
        let mut followed = 0;
        while !shutdown.is_cancelled() {
            self.model.learn(&journal.epochs());
            followers.extend((followed..self.shards()).map(follow));
            followed = self.shards();
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = journal.grown(followed) => {}
                Some(()) = followers.next() => {}
            }
        }
        while followers.next().await.is_some() {}
        let store = self.model.store();
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
        let store = self.model.store();
        let of_shard =
            |shard| store.open_quote_requests(shard).inspect_err(|fault| self.model.report_fault(shard, fault));
        (0..self.shards()).map(|shard| of_shard(shard).unwrap_or_default()).sum()
    }

    /// Whether a batch collects quotes, as far as the read model knows; `None` where it knows no such batch, or cannot say.
    pub fn quote_request_is_open(&self, id: &QuoteRequestId) -> Option<bool> {
        let known = self.read(&id.into(), |store, shard| store.quote_request_is_open(shard, id));
        known.ok().flatten().map(|known| known.view)
    }

    /// Stream sequence of the last commit of `shard` that is in the views; 0 before the shard has started.
    pub fn checkpoint(&self, shard: u16) -> u64 {
        self.model.checkpoint(shard)
    }

    /// How far `shard` follows its stream.
    pub fn status(&self, shard: u16) -> ShardStatus {
        self.model.status(shard)
    }

    /// Whether every shard is live that may still take something. What lies in the others is at rest, and is answered from
    /// the journal as long as they are not.
    ///
    /// # Errors
    /// [`Unavailable`] for the first shard that is not.
    pub fn ready(&self) -> Result<(), Unavailable> {
        self.model.known().open().try_for_each(|shard| self.model.live(shard).map(drop))
    }

    /// Waits until the commit at `sequence` is in the views of `shard`, at most for `wait_max`, and says whether it is.
    /// Does not wait for a shard that has stopped, and does for one that is not known yet.
    pub async fn wait_for(&self, shard: u16, sequence: u64, wait_max: Duration) -> bool {
        let reached = async {
            let mut status = self.model.watch(shard).await;
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
        self.model.lock_rebuild().clone()
    }

    /// Reserves the one rebuild that may run at a time; [`Rebuild::run`] runs it.
    ///
    /// # Errors
    /// [`RebuildError::UnderWay`].
    pub fn begin_rebuild(&self) -> Result<Rebuild, RebuildError> {
        Rebuild::begin(Arc::clone(&self.model))
    }

    /// The alarms that the journal lost commits which nobody has acknowledged yet, oldest first.
    pub fn alarms(&self) -> Vec<JournalAlarm> {
        self.model.lock_alarms().raised().to_vec()
    }

    /// Drops the alarms, as an operator who has seen them asks, and returns them. Blocks.
    ///
    /// # Errors
    /// When the file that keeps them cannot be removed; nothing is dropped then.
    pub fn acknowledge_alarms(&self) -> io::Result<Vec<JournalAlarm>> {
        self.model.lock_alarms().acknowledge()
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.model.shards()
    }

    /// What `read` finds in one of the shards in which the stream may lie. It lies in one of them at most.
    fn read<T>(
        &self,
        stream_id: &StreamId,
        read: impl Fn(&Store, u16) -> Result<Option<T>, Fault>,
    ) -> Result<Option<Located<T>>, Unavailable> {
        let mut missing = None;
        for shard in self.model.known().of(stream_id) {
            match self.read_in(shard, &read) {
                Ok((Some(view), as_of)) => return Ok(Some(Located { shard, as_of, view })),
                Ok((None, _)) => {}
                Err(unavailable) => missing = missing.or(Some(unavailable)),
            }
        }
        missing.map_or(Ok(None), Err)
    }

    fn read_in<T>(
        &self,
        shard: u16,
        read: impl FnOnce(&Store, u16) -> Result<Option<T>, Fault>,
    ) -> Result<(Option<T>, u64), Unavailable> {
        // Before the view, which has no less than what was published.
        let as_of = self.model.live(shard)?;
        let view = self.model.peek(shard, read).map_err(|_| Unavailable::CatchingUp { shard })?;
        // Again, because the shard may have been emptied in between.
        self.model.live(shard)?;
        Ok((view, as_of))
    }

    /// What `read` finds, waiting for it with each change of the stream.
    async fn await_news<T>(
        &self,
        stream_id: &StreamId,
        wait_max: Duration,
        read: impl Fn(&Store, u16) -> Result<Option<T>, Fault>,
    ) -> Option<T> {
        let deadline = Instant::now() + wait_max;
        let waiting = self.model.wait_at(stream_id);
        loop {
            let mut notified = pin!(waiting.notify().notified());
            notified.as_mut().enable();
            // A view beyond what was seen is news even while the shard is catching up.
            let news = self.model.known().of(stream_id).find_map(|shard| self.model.peek(shard, &read).ok().flatten());
            if news.is_some() {
                return news;
            }
            timeout_at(deadline, notified).await.ok()?;
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
        let store = self.model.store();
        let read = tokio::task::spawn_blocking(move || store.open_streams(shard)).await;
        let read = read.map_err(|error| Transient::unreachable(format!("what is open in shard {shard}: {error}")))?;
        read.map_err(|fault| {
            self.model.report_fault(shard, &fault);
            Transient::unreachable(format!("what is open in shard {shard}: {fault}"))
        })
    }
}

#[cfg(test)]
mod tests;
