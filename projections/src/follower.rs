//! The follower: the task that applies the commits of one shard to its views.

use std::{convert::Infallible, sync::Arc, time::Duration};

use chrono::Utc;
use futures::{FutureExt, future::BoxFuture};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use events::StreamId;
use journal::{Journal, ReadError, Recorded};

use crate::{
    alarm::JournalAlarm,
    fault::Fault,
    prefetch::{PAGE_COMMITS, Prefetch},
    quote_request::QuoteRequestView,
    read_model::ReadModel,
    shards::{STARTING, ShardState, ShardStatus},
    store::{Checkpoint, Pending, Store, blocking},
    unreadable::{self, NO_COMMIT, Next},
    view::PaymentView,
};

const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How often in a row a stream has to be found too short before that is believed, and the pause between two looks.
const SHORT_LOOKS: u32 = 6;
const SHORT_PAUSE: Duration = Duration::from_millis(500);
/// How often the head of a sealed stream is looked at again.
const LOOK_AT_SEALED_EVERY: Duration = Duration::from_secs(60);

/// Follows the stream of one shard.
pub(crate) struct Follower {
    model: Arc<ReadModel>,
    journal: Arc<dyn Journal>,
    shard: u16,
    shutdown: CancellationToken,
    backoff: Duration,
    /// Whether the shard was built again because of a gap, which a second time is the stream's own.
    rebuilt_for_gap: bool,
    /// Whether what could not be read was tried again.
    tried_again: bool,
    /// Whether it was logged that the stream is sealed.
    reported_end: bool,
}

/// Why following was broken off.
enum Break {
    /// The process ends.
    Shutdown,
    /// A fault of the stored views was reported, or the database was replaced.
    Recheck,
    /// The stored views are of no use; the stream has the truth.
    Rebuild(String),
    /// The stream lost what was read from it.
    Lost(JournalAlarm),
    /// sled failed.
    Storage(Arc<Store>, String),
    /// The stream cannot be read any further.
    Stop(String),
}

impl Follower {
    pub(crate) fn new(
        model: Arc<ReadModel>,
        journal: Arc<dyn Journal>,
        shard: u16,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            model,
            journal,
            shard,
            shutdown,
            backoff: BACKOFF_MIN,
            rebuilt_for_gap: false,
            tried_again: false,
            reported_end: false,
        }
    }

    /// Follows until the shutdown, or until the stream cannot be read.
    pub(crate) async fn run(mut self) {
        loop {
            let store = self.model.store();
            match self.follow(store).await {
                Break::Shutdown => return,
                Break::Recheck => {}
                Break::Rebuild(reason) => match self.look_back().await {
                    Break::Shutdown => return,
                    Break::Stop(reason) => {
                        self.model.stop(self.shard, reason);
                        return;
                    }
                    Break::Lost(alarm) => self.lost(alarm).await,
                    _ => self.rebuild(reason).await,
                },
                Break::Lost(alarm) => self.lost(alarm).await,
                Break::Storage(store, reason) => self.replace(store, reason).await,
                Break::Stop(reason) => {
                    self.model.stop(self.shard, reason);
                    return;
                }
            }
        }
    }

    /// Raises the alarm, and builds the shard again from what the stream has.
    async fn lost(&mut self, alarm: JournalAlarm) {
        let (model, reason) = (Arc::clone(&self.model), alarm.to_string());
        // On disk before the checkpoint, which is the only evidence, is reset.
        if let Err(error) = tokio::task::spawn_blocking(move || model.raise(alarm)).await {
            error!(shard = self.shard, %error, reason, "a journal alarm cannot be raised");
        }
        self.rebuild(reason).await;
    }

    /// Looks whether the stream still has the commit that a checkpoint names whose views are of no use any more, before it is
    /// reset: views of an earlier version, or with other indexes, are as good a witness of a loss as any.
    async fn look_back(&mut self) -> Break {
        let (store, shard) = (self.model.store(), self.shard);
        match blocking(&store, move |store| store.witness(shard)).await {
            Ok(Some(witness)) => self.confirm(&witness).await.err().unwrap_or(Break::Recheck),
            Ok(None) | Err(_) => Break::Recheck,
        }
    }

    async fn rebuild(&mut self, reason: String) {
        let shard = self.shard;
        error!(shard, reason, "PROJECTION IS BUILT AGAIN from the stream's first commit");
        let model = Arc::clone(&self.model);
        let turn = model.turn(shard).await;
        model.publish(shard, STARTING);
        let store = model.store();
        let emptied = blocking(&store, move |store| store.reset(shard)).await;
        drop(turn);
        if let Err(fault) = emptied {
            self.replace(store, fault.to_string()).await;
        }
    }

    async fn replace(&mut self, broken: Arc<Store>, reason: String) {
        error!(shard = self.shard, reason, "PROJECTION DATABASE FAILED: an empty one takes its place");
        let model = Arc::clone(&self.model);
        let replaced = tokio::task::spawn_blocking(move || model.replace(&broken)).await;
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

    async fn follow(&mut self, store: Arc<Store>) -> Break {
        match self.try_follow(store).await {
            Ok(never) => match never {},
            Err(broken) => broken,
        }
    }

    async fn try_follow(&mut self, mut store: Arc<Store>) -> Result<Infallible, Break> {
        let (model, shard) = (Arc::clone(&self.model), self.shard);
        let turn = model.turn(shard).await;
        let checked = blocking(&store, move |store| store.verify(shard)).await;
        let mut checkpoint = checked.map_err(|fault| self.sort(&store, fault))?;
        drop(turn);
        let target = self.confirm(&checkpoint).await?;
        self.try_again(&store).await?;
        info!(shard, checkpoint = checkpoint.sequence, head = target, "projection follows its stream");
        let turn = model.turn(shard).await;
        self.publish(&store, &checkpoint, target)?;
        drop(turn);
        // Begun anew with each look at the whole shard: what was read before it may be of another stream.
        let mut prefetch = Prefetch::new(Arc::clone(&self.journal), shard);
        let mut pending = Pending::default();
        loop {
            self.move_on(&mut store, &mut checkpoint, &mut pending).await?;
            let from = pending.sequence().unwrap_or(checkpoint.sequence) + 1;
            let next = match self.next_of(&mut prefetch, from).await {
                Ok(next) => next,
                Err(broken) => {
                    // What could be read remains.
                    let (_turn, folded) = (model.turn(shard).await, std::mem::take(&mut pending));
                    let stored = blocking(&store, move |store| store.store(shard, folded)).await;
                    let stored = stored.map_err(|fault| self.sort(&store, fault))?;
                    self.publish(&store, &stored.checkpoint, target)?;
                    model.wake(&stored.changed);
                    return Err(broken);
                }
            };
            let ended = matches!(next, Next::Commits { ended: true, .. });
            if pending.sequence().is_none() && matches!(&next, Next::Commits { page, .. } if page.is_empty()) {
                self.head_beyond(&checkpoint).await?;
            } else {
                let _turn = model.turn(shard).await;
                if self.move_on(&mut store, &mut checkpoint, &mut pending).await? {
                    continue;
                }
                let (folded, gaps_are_the_streams) = (std::mem::take(&mut pending), self.rebuilt_for_gap);
                // Who is behind shows nothing new for a while, and then stores all of it in one batch.
                let lags = next.behind().is_some_and(|behind| behind <= target);
                let taken = blocking(&store, move |store| store.take(shard, folded, &next, gaps_are_the_streams, lags));
                let taken = taken.await.map_err(|fault| self.sort(&store, fault))?;
                pending = taken.pending;
                if let Some(applied) = taken.stored {
                    checkpoint = applied.checkpoint;
                    self.publish(&store, &checkpoint, target)?;
                    model.wake(&applied.changed);
                }
            }
            if ended {
                self.await_news(&checkpoint, target).await?;
            }
            if self.shutdown.is_cancelled() {
                return Err(Break::Shutdown);
            }
            if model.recheck_requested(shard).now_or_never().is_some() {
                return Err(Break::Recheck);
            }
        }
    }

    /// Goes on with the rebuilt copy, where one took the place of `store`, and says whether it did. What was folded into views
    /// of the other is not for this one.
    async fn move_on(
        &mut self,
        store: &mut Arc<Store>,
        checkpoint: &mut Checkpoint,
        pending: &mut Pending,
    ) -> Result<bool, Break> {
        let Some(rebuilt) = self.model.rebuilt_from(store) else { return Ok(false) };
        let shard = self.shard;
        *store = rebuilt;
        *pending = Pending::default();
        let stored = blocking(store, move |store| store.checkpoint(shard)).await;
        *checkpoint = stored.map_err(|fault| self.sort(store, fault))?;
        Ok(true)
    }

    fn publish(&self, store: &Arc<Store>, checkpoint: &Checkpoint, target: u64) -> Result<(), Break> {
        let state = if checkpoint.sequence >= target { ShardState::Live } else { ShardState::CatchingUp };
        let status = ShardStatus { checkpoint: checkpoint.sequence, state };
        if self.model.publish_from(store, self.shard, status) { Ok(()) } else { Err(Break::Recheck) }
    }

    /// Checks that the stream is the one the checkpoint was taken from, and returns its head.
    async fn confirm(&mut self, checkpoint: &Checkpoint) -> Result<u64, Break> {
        let head = self.head_beyond(checkpoint).await?;
        let sequence = checkpoint.sequence;
        if sequence == 0 {
            return Ok(head);
        }
        loop {
            let page = match self.next(sequence, 1).await? {
                Next::Commits { page, .. } => page,
                Next::Unreadable(_) if checkpoint.commit_id == NO_COMMIT => return Ok(head),
                // By another version of this program, presumably.
                Next::Unreadable(_) => {
                    return Err(Break::Rebuild(format!("commit {sequence} was applied and cannot be read any more")));
                }
            };
            let Some(found) = page.first() else {
                // The head says that it is there, so the replica that answered lags behind.
                self.wait_for_stream(&format!("commit {sequence} is not readable yet")).await?;
                continue;
            };
            if found.position.sequence == sequence && found.commit_id.as_str() == checkpoint.commit_id {
                return Ok(head);
            }
            if checkpoint.commit_id == NO_COMMIT {
                return Err(Break::Rebuild(format!("message {sequence} can be read now")));
            }
            return Err(Break::Lost(self.alarm(checkpoint, head)));
        }
    }

    /// The stream's head, which is never below the checkpoint of the same stream. A leader that was elected a moment ago
    /// may not know its newest commits yet, so one look proves nothing.
    async fn head_beyond(&mut self, checkpoint: &Checkpoint) -> Result<u64, Break> {
        let (journal, shard, sequence) = (Arc::clone(&self.journal), self.shard, checkpoint.sequence);
        let mut look = 0;
        loop {
            look += 1;
            let head = self.read(|| journal.head(shard)).await?;
            if head >= sequence {
                return Ok(head);
            }
            if look == SHORT_LOOKS {
                return Err(Break::Lost(self.alarm(checkpoint, head)));
            }
            warn!(shard, checkpoint = sequence, head, look, "the stream seems to end before what was read from it");
            tokio::select! {
                () = self.shutdown.cancelled() => return Err(Break::Shutdown),
                () = tokio::time::sleep(SHORT_PAUSE) => {}
            }
        }
    }

    fn alarm(&self, checkpoint: &Checkpoint, head: u64) -> JournalAlarm {
        JournalAlarm {
            shard: self.shard,
            checkpoint: checkpoint.sequence,
            commit_id: checkpoint.commit_id.clone(),
            head,
            found_at: Utc::now(),
        }
    }

    /// A page from `from` on, and has the one behind it read meanwhile.
    async fn next_of(&mut self, prefetch: &mut Prefetch, from: u64) -> Result<Next, Break> {
        let read = tokio::select! {
            () = self.shutdown.cancelled() => return Err(Break::Shutdown),
            read = prefetch.take(from, PAGE_COMMITS) => read,
        };
        let next = match read {
            Some(next) => next,
            None => self.next(from, PAGE_COMMITS).await?,
        };
        if let Some(behind) = next.behind() {
            prefetch.begin(behind, PAGE_COMMITS);
        }
        Ok(next)
    }

    /// The next part from `from` on.
    async fn next(&mut self, from: u64, limit: usize) -> Result<Next, Break> {
        let (journal, shard) = (Arc::clone(&self.journal), self.shard);
        self.read(|| unreadable::next(journal.as_ref(), shard, from, limit).boxed()).await
    }

    /// Tries once whether streams that could not be read can be by now: this may be a later version of the program.
    async fn try_again(&mut self, store: &Arc<Store>) -> Result<(), Break> {
        if std::mem::replace(&mut self.tried_again, true) {
            return Ok(());
        }
        let (journal, shard) = (Arc::clone(&self.journal), self.shard);
        let marked = blocking(store, move |store| store.marked(shard)).await;
        for stream_id in marked.map_err(|fault| self.sort(store, fault))? {
            match self.read(|| journal.load(&stream_id)).await {
                Ok(commits) if is_whole(&stream_id, &commits) => {
                    return Err(Break::Rebuild(format!("{stream_id} can be read now")));
                }
                Ok(_) | Err(Break::Stop(..)) => {
                    error!(shard, %stream_id, "stream can still not be read; it has no view");
                }
                Err(broken) => return Err(broken),
            }
        }
        Ok(())
    }

    /// Returns when the stream may have more than the checkpoint.
    async fn await_news(&mut self, checkpoint: &Checkpoint, target: u64) -> Result<(), Break> {
        let sequence = checkpoint.sequence;
        if sequence < target {
            return self.wait_for_stream(&format!("commit {} is not readable yet", sequence + 1)).await;
        }
        let (journal, model, shard) = (Arc::clone(&self.journal), Arc::clone(&self.model), self.shard);
        let ended = self.has_ended(sequence).await?;
        let shutdown = self.shutdown.clone();
        let news = async {
            if ended {
                // A leader that was elected a moment ago may have said too little.
                let over = timeout(LOOK_AT_SEALED_EVERY, shutdown.cancelled()).await;
                return over.map_or(Ok(()), |()| Err(Break::Shutdown));
            }
            self.read(|| journal.wait_beyond(shard, sequence)).await
        };
        tokio::select! {
            () = model.recheck_requested(shard) => Err(Break::Recheck),
            () = model.moved(shard) => Ok(()),
            news = news => news,
        }
    }

    /// Whether nothing will ever come behind `sequence`, because the shard is sealed.
    async fn has_ended(&mut self, sequence: u64) -> Result<bool, Break> {
        let (journal, shard) = (Arc::clone(&self.journal), self.shard);
        let epochs = journal.epochs();
        // In this order: what a stream has once it is sealed is all that it will ever have.
        if !epochs.is_sealed(shard) || self.read(|| journal.head(shard)).await? > sequence {
            return Ok(false);
        }
        self.model.learn(&epochs);
        if !std::mem::replace(&mut self.reported_end, true) {
            info!(shard, checkpoint = sequence, "projection has all that its sealed stream will ever have");
        }
        Ok(true)
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
                Err(error @ ReadError::Unreadable { .. }) => return Err(Break::Stop(error.to_string())),
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
            Fault::Gap { .. } => {
                self.rebuilt_for_gap = true;
                Break::Rebuild(fault.to_string())
            }
        }
    }
}

/// Whether these commits make a view.
fn is_whole(stream_id: &StreamId, commits: &[Recorded]) -> bool {
    match stream_id {
        StreamId::Payment(_) => PaymentView::fold(commits).is_some(),
        StreamId::QuoteRequest(_) => QuoteRequestView::fold(commits).is_some(),
    }
}
