//! What the worker of a shard is woken for: the end of the shard's stream.
//!
//! For what this process stores itself nobody is asked: the append tells its
//! sequence. What lies in between, or beyond, is another process's, and is read: a hint on `gw.head.{shard}` tells that it
//! is there, and without one the head is looked at every second. So a wake-up costs the server nothing but where another
//! process stored the commit (ADR 126).
//!
//! What is new is read from the copies of the stream, so a stream that is without a leader is followed as far as they go.
//! So it is, too, while the lease has run out and nobody is known to have taken over.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_nats::Client;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, warn};

use journal::envelope;

use super::{
    Inner, LEGACY_CONSUMER_PREFIX,
    head_cache::Newest,
    tail::{OwnCommit, Tail},
};
use crate::{
    requests::{self, BatchRequest, Pick},
    shard_worker::{Followed, Report, Unheard},
};

/// Most messages read at a time.
const READ_MAX: usize = 256;
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

impl Followed for Inner {
    fn lease_client(&self) -> &Client {
        self.leaser.get().unwrap_or(&self.client)
    }

    async fn follow(self: &Arc<Self>, shard: u16, report: Report<'_>) {
        // From here on what this process stores is heard of, so that nothing falls between the list of open payments
        // that the owner makes and the first wake-up.
        let tail = self.tails.open(shard);
        let newest = self.newest(shard);
        let head = self.followed_from(shard).await;
        report.acquired(shard);
        // In the first term that this process has of the shard, and not again: no gateway of this version makes one.
        if report.term == 1 {
            self.delete_legacy_consumer(shard);
        }
        // There is always one: a shard that there cannot be has no head.
        if let Some(newest) = newest {
            Following { inner: self, shard, report, tail, newest, seen: head, beyond: BTreeSet::new() }.run().await;
        }
    }
}

impl Inner {
    /// Deletes the consumer by which older versions woke their workers, if it is there under the name that anybody can
    /// guess. One under a secret name goes by itself after a day.
    fn delete_legacy_consumer(&self, shard: u16) {
        let (context, stream) = (self.context.clone(), envelope::stream(shard));
        let name = format!("{LEGACY_CONSUMER_PREFIX}{shard:02}");
        // What is not deleted now is by the next gateway that takes the shard over.
        tokio::spawn(async move { context.delete_consumer_from_stream(&name, &stream).await.map(drop) });
    }

    /// The last sequence before the shard is acquired.
    async fn followed_from(&self, shard: u16) -> u64 {
        loop {
            match requests::last_sequence(&self.client, &envelope::stream(shard), ASK_MAX).await {
                Ok(head) => return head,
                Err(error) => {
                    debug!(shard, error, "head cannot be read");
                    sleep(RETRY).await;
                }
            }
        }
    }
}

/// The end of the shard's stream, as far as the worker has followed it in one lease term.
struct Following<'a> {
    inner: &'a Inner,
    shard: u16,
    report: Report<'a>,
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
            if self.inner.tails.has_pending(self.shard) && since.elapsed() < OWN_PENDING_MAX {
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
                self.report.wake(stream_id, sequence).await?;
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
        let (inner, shard) = (self.inner, self.shard);
        let batch = usize::try_from(until - self.seen).unwrap_or(READ_MAX).min(READ_MAX);
        let request = BatchRequest { seq: self.seen + 1, subject: None, batch, max_bytes: READ_BYTES };
        let stored = match requests::direct_batch(&inner.client, &envelope::stream(shard), &request, ASK_MAX).await {
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
                match envelope::stream_of(shard, &message.subject) {
                    Ok(stream_id) => self.report.wake(stream_id, message.sequence).await?,
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
        let (inner, shard) = (self.inner, self.shard);
        let pick = Pick::At { seq: sequence };
        match requests::leader_get(&inner.client, &envelope::stream(shard), &pick, ASK_MAX).await {
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
}
