//! The shard worker: it holds the lease and delivers wake-ups while it is held.
//!
//! It follows the end of the shard's stream. For what this process stores itself nobody is asked: the append tells its
//! sequence. What lies in between, or beyond, is another process's, and is read: a hint on `gw.head.{shard}` tells that it
//! is there, and without one the head is looked at every second. So a wake-up costs the server nothing but where another
//! process stored the commit (ADR 126).
//!
//! What is new is read from the copies of the stream, so a stream that is without a leader is followed as far as they go.
//! So it is, too, while the lease has run out and nobody is known to have taken over.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, error, info, warn};

use events::StreamId;
use journal::{ReadError, ShardWorker, WakeUp, envelope};

use super::{
    Inner, LEGACY_CONSUMER_PREFIX,
    head_cache::Newest,
    lease::{Contender, Held},
    tail::{OwnCommit, Tail},
};
use crate::requests::{self, BatchRequest, Pick};

/// Most wake-ups that wait to be handed out, and most messages read at a time.
const WAKE_UPS_MAX: usize = 256;
/// Most bytes read at a time.
const READ_BYTES: usize = 1024 * 1024;
/// How long a sequence is missing before it is read while appends of this process are on their way, of which it may be one.
const OWN_PENDING_MAX: Duration = Duration::from_millis(20);
/// Most sequences beyond a missing one that are remembered. Others are read when it is their turn.
const BEYOND_MAX: usize = 64 * 1024;
const RETRY: Duration = Duration::from_millis(100);
/// The first pause before what was told of is looked for again where it was not found; doubles up to [`RETRY`].
const AGAIN_MIN: Duration = Duration::from_millis(2);
/// How long one question about the stream may take.
const ASK_MAX: Duration = Duration::from_secs(1);
/// How long a release may take.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// The lease term in which the shard is held; `None` while it is not.
type LeaseTerm = Option<u64>;

/// A wake-up that is not handed out yet: the commit that it is for.
struct PendingWakeUp {
    term: u64,
    stream_id: StreamId,
    sequence: u64,
}

struct Worker {
    term: watch::Receiver<LeaseTerm>,
    wake_ups: mpsc::Receiver<PendingWakeUp>,
    /// The lease term that was reported as acquired and not yet as lost.
    reported: LeaseTerm,
    release: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait]
impl ShardWorker for Worker {
    async fn next(&mut self) -> Result<WakeUp, ReadError> {
        loop {
            let term = *self.term.borrow_and_update();
            if self.reported != term {
                if self.reported.take().is_some() {
                    return Ok(WakeUp::Lost);
                }
                self.reported = term;
                return Ok(WakeUp::Acquired);
            }
            tokio::select! {
                biased;
                changed = self.term.changed() => if changed.is_err() {
                    sleep(RETRY).await;
                    return Err(ReadError::Unavailable("the worker of the shard has ended".into()));
                },
                wake_up = self.wake_ups.recv() => match wake_up {
                    Some(PendingWakeUp { term, stream_id, sequence }) if Some(term) == self.reported => {
                        return Ok(WakeUp::Event { stream_id, sequence });
                    }
                    Some(_) => {}
                    None => sleep(RETRY).await,
                },
            }
        }
    }

    async fn release(mut self: Box<Self>) {
        if let Some(release) = self.release.take() {
            // When the task has ended there is nothing to release.
            let _ = release.send(());
            let _ = timeout(RELEASE_MAX, &mut self.task).await;
        }
    }
}

pub(super) fn start(inner: Arc<Inner>, shard: u16, owner: &str) -> Box<dyn ShardWorker> {
    let (term, term_seen) = watch::channel(None);
    let (wake_ups, wake_ups_out) = mpsc::channel(WAKE_UPS_MAX);
    let (release, released) = oneshot::channel();
    let contender = Contender::new(shard, owner);
    let task = tokio::spawn(async move {
        if inner.read_only {
            warn!(shard, "a journal that is open for reading only cannot be worked");
            return;
        }
        Task { inner, shard, contender, term, wake_ups }.run(released).await;
    });
    Box::new(Worker { term: term_seen, wake_ups: wake_ups_out, reported: None, release: Some(release), task })
}

struct Task {
    inner: Arc<Inner>,
    shard: u16,
    contender: Contender,
    term: watch::Sender<LeaseTerm>,
    wake_ups: mpsc::Sender<PendingWakeUp>,
}

impl Task {
    async fn run(self, mut released: oneshot::Receiver<()>) {
        for term in 1.. {
            let mut held = tokio::select! {
                biased;
                _ = &mut released => return,
                held = self.contender.win(&self.inner) => held,
            };
            let ended = tokio::select! {
                biased;
                _ = &mut released => true,
                () = self.keep_lease(term, &mut held) => false,
            };
            self.term.send_replace(None);
            info!(shard = self.shard, term, ended, "shard is given up");
            // Also without a request: a worker that still holds the lease by its own clock frees it for the others.
            self.contender.release(&self.inner, &held).await;
            if ended {
                return;
            }
        }
    }

    /// Keeps the lease, and does the shard's work, until it is lost.
    async fn keep_lease(&self, term: u64, held: &mut Held) {
        let work = async {
            // From here on what this process stores is heard of, so that nothing falls between the list of open payments
            // that the owner makes and the first wake-up.
            let tail = self.inner.tails.open(self.shard);
            let newest = self.inner.newest(self.shard);
            let head = self.head().await;
            info!(shard = self.shard, term, "shard is acquired");
            self.term.send_replace(Some(term));
            // In the first term that this process has of the shard, and not again: no gateway of this version makes one.
            if term == 1 {
                self.delete_legacy_consumer();
            }
            // There is always one: a shard that there cannot be has no head.
            if let Some(newest) = newest {
                Following { task: self, term, tail, newest, seen: head, beyond: BTreeSet::new() }.run().await;
            }
        };
        tokio::select! {
            () = self.contender.keep(&self.inner, held) => {}
            () = work => {}
        }
    }

    /// Deletes the consumer by which older versions woke their workers, if it is there under the name that anybody can
    /// guess. One under a secret name goes by itself after a day.
    fn delete_legacy_consumer(&self) {
        let (context, stream) = (self.inner.context.clone(), envelope::stream(self.shard));
        let name = format!("{LEGACY_CONSUMER_PREFIX}{:02}", self.shard);
        // What is not deleted now is by the next gateway that takes the shard over.
        tokio::spawn(async move { context.delete_consumer_from_stream(&name, &stream).await.map(drop) });
    }

    /// The last sequence before the shard is acquired.
    async fn head(&self) -> u64 {
        loop {
            match requests::last_sequence(&self.inner.client, &envelope::stream(self.shard), ASK_MAX).await {
                Ok(head) => return head,
                Err(error) => {
                    debug!(shard = self.shard, error, "head cannot be read");
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// Nobody listens to the wake-ups any more.
struct Unheard;

/// The end of the shard's stream, as far as the worker has followed it in one lease term.
struct Following<'a> {
    task: &'a Task,
    term: u64,
    tail: Arc<Tail>,
    newest: Newest,
    /// Every commit up to this sequence was handed out.
    seen: u64,
    /// Sequences above that whose commits were handed out, too.
    beyond: BTreeSet<u64>,
}

impl Following<'_> {
    /// Hands out wake-ups until nobody listens.
    async fn run(mut self) {
        let mut again = AGAIN_MIN;
        // What was the newest when, while some of it is missing.
        let mut missing: Option<(u64, Instant)> = None;
        loop {
            let before = self.seen;
            if self.hand_out_own().await.is_err() {
                return;
            }
            let newest = self.newest.get().max(self.beyond.last().copied().unwrap_or_default());
            if newest <= self.seen {
                missing = None;
                tokio::select! {
                    () = self.tail.changed() => {}
                    () = self.newest.changed() => {}
                }
                continue;
            }
            if self.seen > before {
                again = AGAIN_MIN;
            }
            // What is missing for a moment is read, however much came behind it since.
            let (until, since) = match missing {
                Some((until, since)) if until > self.seen => (until, since),
                _ => (newest, Instant::now()),
            };
            missing = Some((until, since));
            if self.task.inner.tails.has_pending(self.task.shard) && since.elapsed() < OWN_PENDING_MAX {
                tokio::select! {
                    () = self.tail.changed() => {}
                    () = sleep_until(since + OWN_PENDING_MAX) => {}
                }
                continue;
            }
            let before = self.seen;
            if self.read_on(until).await.is_err() {
                return;
            }
            if self.seen == before {
                // A copy that is behind, a hint of what is not there, or no answer.
                tokio::select! {
                    () = self.tail.changed() => {}
                    () = sleep(again) => again = (again * 2).min(RETRY),
                }
            }
        }
    }

    /// Hands out wake-ups for what this process has stored.
    async fn hand_out_own(&mut self) -> Result<(), Unheard> {
        for OwnCommit { sequence, stream_id } in self.tail.take() {
            if sequence <= self.seen || self.beyond.len() >= BEYOND_MAX || !self.beyond.insert(sequence) {
                continue;
            }
            if let Some(stream_id) = stream_id {
                self.wake(stream_id, sequence).await?;
            }
        }
        self.close_up();
        Ok(())
    }

    /// Moves on over what was handed out already.
    fn close_up(&mut self) {
        while self.beyond.first() == Some(&(self.seen + 1)) {
            self.beyond.pop_first();
            self.seen += 1;
        }
    }

    /// Hands out wake-ups for what another process has stored up to `until`, as far as a copy of the stream has it. What lies in
    /// between and was handed out already is read over.
    async fn read_on(&mut self, until: u64) -> Result<(), Unheard> {
        let Task { inner, shard, .. } = self.task;
        let batch = usize::try_from(until - self.seen).unwrap_or(WAKE_UPS_MAX).min(WAKE_UPS_MAX);
        let request = BatchRequest { seq: self.seen + 1, subject: None, batch, max_bytes: READ_BYTES };
        let stored = match requests::direct_batch(&inner.client, &envelope::stream(*shard), &request, ASK_MAX).await {
            Ok(stored) => stored,
            Err(error) => {
                debug!(shard, error, "what another process stored cannot be read");
                return Ok(());
            }
        };
        for message in stored {
            if message.sequence > self.seen + 1 && !self.is_lost(self.seen + 1).await {
                break;
            }
            let is_new = message.sequence > self.seen && !self.beyond.contains(&message.sequence);
            // A mark: the stream begins in another shard, whose worker is woken.
            if is_new && !requests::is_moved(&message.headers) {
                match envelope::stream_of(*shard, &message.subject) {
                    Ok(stream_id) => self.wake(stream_id, message.sequence).await?,
                    Err(error) => warn!(shard, %error, "wake-up for no stream"),
                }
            }
            self.seen = message.sequence.max(self.seen);
            self.beyond = self.beyond.split_off(&(self.seen + 1));
        }
        self.close_up();
        Ok(())
    }

    /// Whether the leader does not have the message either that a copy passed over. Nothing is ever taken out of these streams.
    async fn is_lost(&self, sequence: u64) -> bool {
        let Task { inner, shard, .. } = self.task;
        let pick = Pick::At { seq: sequence };
        match requests::leader_get(&inner.client, &envelope::stream(*shard), &pick, ASK_MAX).await {
            Ok(None) => {
                error!(shard, sequence, "a stored message is missing, and wakes nobody");
                true
            }
            Ok(Some(_)) => false,
            Err(error) => {
                debug!(shard, sequence, error, "whether a message is missing is unknown");
                false
            }
        }
    }

    async fn wake(&self, stream_id: StreamId, sequence: u64) -> Result<(), Unheard> {
        let wake_up = PendingWakeUp { term: self.term, stream_id, sequence };
        self.task.wake_ups.send(wake_up).await.map_err(|_| Unheard)
    }
}
