//! The task that keeps one shard's views up with its stream.

use std::{convert::Infallible, sync::Arc, time::Duration};

use events::journal::{Journal, ReadError, Recorded};
use futures::{FutureExt, future::BoxFuture};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{
    service::{Projections, STARTING, ShardState, ShardStatus},
    store::{Checkpoint, Fault, Store},
};

/// Commits asked for and applied at a time: large enough to spread the cost of a batch, small enough for the memory.
const PAGE_COMMITS: usize = 512;
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Follows the stream of one shard.
pub(crate) struct Follower {
    projections: Projections,
    journal: Arc<dyn Journal>,
    shard: u16,
    shutdown: CancellationToken,
    backoff: Duration,
    /// Whether the shard was built again because of a gap, which a second time is the stream's own.
    rebuilt_for_gap: bool,
}

/// Why following was broken off.
enum Break {
    /// The process ends.
    Shutdown,
    /// What is stored was put in doubt, or its database was replaced.
    Doubted,
    /// What is stored is of no use; the stream has the truth.
    Rebuild(String),
    /// sled failed.
    Storage(Arc<Store>, String),
    /// The stream cannot be read any further, because of the message at this sequence where it is known.
    Stop(String, Option<u64>),
}

impl Follower {
    pub(crate) fn new(
        projections: Projections,
        journal: Arc<dyn Journal>,
        shard: u16,
        shutdown: CancellationToken,
    ) -> Self {
        Self { projections, journal, shard, shutdown, backoff: BACKOFF_MIN, rebuilt_for_gap: false }
    }

    /// Follows until the shutdown, or until the stream cannot be read.
    pub(crate) async fn run(mut self) {
        loop {
            let store = self.projections.store();
            match self.follow(&store).await {
                Break::Shutdown => return,
                Break::Doubted => {}
                Break::Rebuild(reason) => {
                    error!(shard = self.shard, reason, "PROJECTION IS BUILT AGAIN from the stream's first commit");
                    self.projections.publish(self.shard, STARTING);
                    let shard = self.shard;
                    if let Err(fault) = blocking(&store, move |store| store.reset(shard)).await {
                        self.replace(store, fault.to_string()).await;
                    }
                }
                Break::Storage(store, reason) => self.replace(store, reason).await,
                Break::Stop(reason, _) => {
                    self.projections.stop(self.shard, reason);
                    return;
                }
            }
        }
    }

    async fn replace(&mut self, broken: Arc<Store>, reason: String) {
        error!(shard = self.shard, reason, "PROJECTION DATABASE FAILED: an empty one takes its place");
        let projections = self.projections.clone();
        let replaced = tokio::task::spawn_blocking(move || projections.replace(&broken)).await;
        match replaced {
            Ok(Ok(())) => {}
            Ok(Err(error)) => error!(shard = self.shard, %error, "no new projection database can be made"),
            Err(error) => error!(shard = self.shard, %error, "no new projection database can be made"),
        }
        // The cause, a full disk for one, may persist.
        self.pause().await;
    }

    async fn pause(&mut self) {
        let pause = self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    async fn follow(&mut self, store: &Arc<Store>) -> Break {
        match self.try_follow(store).await {
            Ok(never) => match never {},
            Err(broken) => broken,
        }
    }

    async fn try_follow(&mut self, store: &Arc<Store>) -> Result<Infallible, Break> {
        let shard = self.shard;
        let checked = blocking(store, move |store| store.verify(shard)).await;
        let mut checkpoint = checked.map_err(|fault| self.sort(store, fault))?;
        let target = self.confirm(&checkpoint).await?;
        info!(shard, checkpoint = checkpoint.sequence, head = target, "projection follows its stream");
        let mut page_max = PAGE_COMMITS;
        self.publish(store, &checkpoint, target)?;
        loop {
            let page = self.page(checkpoint.sequence + 1, &mut page_max).await?;
            let ended = page.len() < page_max;
            if page.is_empty() {
                self.head_beyond(&checkpoint).await?;
            } else {
                let applied = blocking(store, move |store| store.apply(shard, &page)).await;
                let applied = applied.map_err(|fault| self.sort(store, fault))?;
                checkpoint = applied.checkpoint;
                self.publish(store, &checkpoint, target)?;
                self.projections.wake(&applied.changed);
            }
            if ended {
                self.await_news(&checkpoint, target).await?;
            }
            if self.shutdown.is_cancelled() {
                return Err(Break::Shutdown);
            }
            if self.projections.doubted(shard).now_or_never().is_some() {
                return Err(Break::Doubted);
            }
        }
    }

    fn publish(&self, store: &Arc<Store>, checkpoint: &Checkpoint, target: u64) -> Result<(), Break> {
        let state = if checkpoint.sequence >= target { ShardState::Live } else { ShardState::CatchingUp };
        let status = ShardStatus { checkpoint: checkpoint.sequence, state };
        if self.projections.publish_from(store, self.shard, status) { Ok(()) } else { Err(Break::Doubted) }
    }

    /// Checks that the stream is the one the checkpoint was taken from, and returns its head.
    async fn confirm(&mut self, checkpoint: &Checkpoint) -> Result<u64, Break> {
        let head = self.head_beyond(checkpoint).await?;
        let sequence = checkpoint.sequence;
        if sequence == 0 {
            return Ok(head);
        }
        let (journal, shard) = (Arc::clone(&self.journal), self.shard);
        loop {
            let found = self.read(|| journal.replay(shard, sequence, 1)).await?;
            let Some(found) = found.first() else {
                // The head says that it is there, so whoever answered has not got it yet.
                self.wait_for_stream(&format!("commit {sequence} is not readable yet")).await?;
                continue;
            };
            if found.position.sequence == sequence && found.commit_id.as_str() == checkpoint.commit_id {
                return Ok(head);
            }
            return Err(Break::Rebuild(format!("commit {sequence} of the stream is not the one that was applied")));
        }
    }

    /// The stream's head, which is never below the checkpoint of the same stream.
    async fn head_beyond(&mut self, checkpoint: &Checkpoint) -> Result<u64, Break> {
        let (journal, shard, sequence) = (Arc::clone(&self.journal), self.shard, checkpoint.sequence);
        let head = self.read(|| journal.head(shard)).await?;
        if head < sequence {
            return Err(Break::Rebuild(format!("checkpoint {sequence} is beyond the stream's head {head}")));
        }
        Ok(head)
    }

    /// The commits from `from` on. Those before an unreadable message are still returned.
    async fn page(&mut self, from: u64, page_max: &mut usize) -> Result<Vec<Recorded>, Break> {
        let (journal, shard) = (Arc::clone(&self.journal), self.shard);
        loop {
            let limit = *page_max;
            match self.read(|| journal.replay(shard, from, limit)).await {
                Err(Break::Stop(reason, Some(sequence))) => {
                    let before = usize::try_from(sequence.saturating_sub(from)).unwrap_or(usize::MAX);
                    if before == 0 || before >= limit {
                        return Err(Break::Stop(reason, Some(sequence)));
                    }
                    *page_max = before;
                }
                page => return page,
            }
        }
    }

    /// Returns when the stream may have more than the checkpoint.
    async fn await_news(&mut self, checkpoint: &Checkpoint, target: u64) -> Result<(), Break> {
        let sequence = checkpoint.sequence;
        if sequence < target {
            return self.wait_for_stream(&format!("commit {} is not readable yet", sequence + 1)).await;
        }
        let (journal, projections, shard) = (Arc::clone(&self.journal), self.projections.clone(), self.shard);
        tokio::select! {
            () = projections.doubted(shard) => Err(Break::Doubted),
            news = self.read(|| journal.wait_beyond(shard, sequence)) => news,
        }
    }

    /// Reads the journal, again and again while it is unavailable.
    async fn read<'a, T>(
        &mut self,
        call: impl Fn() -> BoxFuture<'a, Result<T, ReadError>> + Send + Sync,
    ) -> Result<T, Break> {
        loop {
            let read = tokio::select! {
                () = self.shutdown.cancelled() => return Err(Break::Shutdown),
                read = call() => read,
            };
            match read {
                Ok(value) => {
                    self.backoff = BACKOFF_MIN;
                    return Ok(value);
                }
                Err(ReadError::Unavailable(reason)) => self.wait_for_stream(&reason).await?,
                Err(error @ ReadError::Unreadable { sequence, .. }) => {
                    return Err(Break::Stop(error.to_string(), Some(sequence)));
                }
            }
        }
    }

    async fn wait_for_stream(&mut self, reason: &str) -> Result<(), Break> {
        warn!(shard = self.shard, reason, "projection waits for its stream");
        self.pause().await;
        if self.shutdown.is_cancelled() { Err(Break::Shutdown) } else { Ok(()) }
    }

    fn sort(&mut self, store: &Arc<Store>, fault: Fault) -> Break {
        match fault {
            Fault::Storage(reason) => Break::Storage(Arc::clone(store), reason),
            Fault::Damaged(reason) => Break::Rebuild(reason),
            Fault::Gap { sequence, .. } if self.rebuilt_for_gap => Break::Stop(fault.to_string(), Some(sequence)),
            Fault::Gap { .. } => {
                self.rebuilt_for_gap = true;
                Break::Rebuild(fault.to_string())
            }
        }
    }
}

/// Runs sled's blocking work where it holds nobody up.
async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let store = Arc::clone(store);
    let done = tokio::task::spawn_blocking(move || work(&store)).await;
    done.unwrap_or_else(|error| Err(Fault::Storage(error.to_string())))
}
