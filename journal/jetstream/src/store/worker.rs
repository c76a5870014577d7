//! The shard worker: it holds the lease and delivers wake-ups while it is held.
//!
//! Wake-ups come from a durable pull consumer `saga_{shard}_{secret}` on the shard's stream, whose name only gateways can
//! know (ADR 117). They are acknowledged as they are handed out, and only while the lease may be relied on, so what a
//! paused former owner takes is delivered again.
//!
//! In a cluster the consumer has a leader of its own, which may be lost while the stream goes on taking commits. Until
//! another is elected, which takes seconds, what is new is read from the copies of the stream. So it is while the lease
//! has run out and nobody is known to have taken over.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Client, StatusCode,
    jetstream::{
        consumer::{AckPolicy, DeliverPolicy, pull},
        context::ConsumerInfoErrorKind,
    },
};
use async_trait::async_trait;
use futures::StreamExt;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use events::StreamId;
use journal::{ReadError, ShardWorker, WakeUp, envelope};

use super::{
    Inner, WORKER_CONSUMER_PREFIX,
    lease::{Contender, Held},
};
use crate::requests::{self, BatchRequest};

/// Most wake-ups fetched at a time, and most that wait to be handed out.
const FETCH: usize = 256;
/// How long a fetch stays open at the server.
const FETCH_EXPIRES: Duration = Duration::from_secs(1);
/// How much later than that the client stops waiting for its end.
const FETCH_GRACE: Duration = Duration::from_millis(500);
/// An unacknowledged wake-up is delivered again after this.
const ACK_WAIT: Duration = Duration::from_secs(2);
const ACK_PENDING_MAX: i64 = 10_000;
const RETRY: Duration = Duration::from_millis(100);
/// How long one question about the consumer or the stream may take.
const ASK_MAX: Duration = Duration::from_secs(1);
/// Most bytes read at a time in the consumer's stead.
const READ_BYTES: usize = 1024 * 1024;
/// A consumer that no gateway has asked for so long is gone, as one is whose secret has changed.
const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
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
    let (wake_ups, wake_ups_out) = mpsc::channel(FETCH);
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

    /// Keeps the lease, and does the shard's work, until it is lost, or some wake-ups may have been.
    async fn keep_lease(&self, term: u64, held: &mut Held) {
        let until = watch::Sender::new(held.until);
        let tell = |next: Instant| {
            until.send_replace(next);
        };
        let work = async {
            // The consumer must be there before the shard counts as acquired, so that nothing falls between the list of
            // open payments that the owner makes and the first wake-up.
            while let Err(error) = self.ensure_consumer().await {
                debug!(shard = self.shard, error, "consumer cannot be created");
                sleep(RETRY).await;
            }
            let head = self.head().await;
            info!(shard = self.shard, term, "shard is acquired");
            self.term.send_replace(Some(term));
            // In the first term that this process has of the shard, and not again: no gateway of this version makes that one.
            if term == 1 {
                self.delete_legacy_consumer();
            }
            self.deliver(term, &until, head).await;
        };
        tokio::select! {
            () = self.contender.keep(&self.inner, held, &tell) => {}
            () = work => {}
        }
    }

    fn consumer(&self) -> String {
        match &self.inner.options.consumer_secret {
            Some(secret) => format!("{}_{secret}", self.legacy_consumer()),
            None => self.legacy_consumer(),
        }
    }

    /// The consumer's name without a secret, which older versions gave it and anybody can guess.
    fn legacy_consumer(&self) -> String {
        format!("{WORKER_CONSUMER_PREFIX}{:02}", self.shard)
    }

    /// Deletes the consumer of an older version, if it is there: nobody who can name it shall find one.
    fn delete_legacy_consumer(&self) {
        if self.inner.options.consumer_secret.is_some() {
            let (context, stream) = (self.inner.context.clone(), envelope::stream(self.shard));
            let name = self.legacy_consumer();
            // What is not deleted now is by the next gateway that takes the shard over.
            tokio::spawn(async move { context.delete_consumer_from_stream(&name, &stream).await.map(drop) });
        }
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

    /// Makes sure that the consumer exists; whether it had to be created.
    async fn ensure_consumer(&self) -> Result<bool, String> {
        timeout(ASK_MAX, self.find_consumer()).await.map_err(|_| "no answer about the consumer in time".to_owned())?
    }

    async fn find_consumer(&self) -> Result<bool, String> {
        let stream = envelope::stream(self.shard);
        let stream = self.inner.context.get_stream_no_info(&stream).await.map_err(|error| error.to_string())?;
        let config = pull::Config {
            durable_name: Some(self.consumer()),
            deliver_policy: DeliverPolicy::New,
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_ack_pending: ACK_PENDING_MAX,
            headers_only: true,
            inactive_threshold: CONSUMER_IDLE_MAX,
            ..pull::Config::default()
        };
        match stream.consumer_info(self.consumer()).await {
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
        stream.create_consumer(config).await.map_err(|error| error.to_string())?;
        Ok(true)
    }

    /// Delivers wake-ups until nobody listens, or some may have been missed. All up to `seen` are.
    async fn deliver(&self, term: u64, until: &watch::Sender<Instant>, mut seen: u64) {
        loop {
            let relied_on_until = *until.borrow();
            let fetched = if Instant::now() < relied_on_until {
                self.fetch(term, until, &mut seen).await
            } else {
                Fetched::LeaseOver
            };
            match &fetched {
                Fetched::Done => continue,
                Fetched::Unheard => return,
                Fetched::LeaseOver | Fetched::NoConsumer | Fetched::Silent => {}
                Fetched::Failed(error) => debug!(shard = self.shard, error, "fetch failed"),
            }
            if !self.read_on(term, &mut seen).await {
                return;
            }
            // A consumer that had to be created starts with what comes from now on, so the owner has to look at everything
            // again.
            if matches!(fetched, Fetched::NoConsumer) && self.ensure_consumer().await == Ok(true) {
                return;
            }
            sleep(RETRY).await;
        }
    }

    /// Hands out wake-ups for what is stored beyond `seen`, as far as a copy of the stream has it; whether anybody
    /// listens. The consumer will deliver the same again.
    async fn read_on(&self, term: u64, seen: &mut u64) -> bool {
        let request = BatchRequest { seq: *seen + 1, subject: None, batch: FETCH, max_bytes: READ_BYTES };
        let stream = envelope::stream(self.shard);
        let stored = match requests::direct_batch(&self.inner.client, &stream, &request, ASK_MAX).await {
            Ok(stored) => stored,
            Err(error) => {
                debug!(shard = self.shard, error, "the stream cannot be read in the consumer's stead");
                return true;
            }
        };
        for message in stored {
            if !requests::is_moved(&message.headers)
                && let Ok(stream_id) = envelope::stream_of(self.shard, &message.subject)
                && self.wake_ups.send(PendingWakeUp { term, stream_id, sequence: message.sequence }).await.is_err()
            {
                return false;
            }
            *seen = message.sequence;
        }
        true
    }

    async fn fetch(&self, term: u64, until: &watch::Sender<Instant>, seen: &mut u64) -> Fetched {
        let client: &Client = &self.inner.client;
        let inbox = client.new_inbox();
        let mut messages = match client.subscribe(inbox.clone()).await {
            Ok(messages) => messages,
            Err(error) => return Fetched::Failed(error.to_string()),
        };
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", envelope::stream(self.shard), self.consumer());
        let ask = format!(r#"{{"batch":{FETCH},"expires":{}}}"#, FETCH_EXPIRES.as_nanos());
        if let Err(error) = client.publish_with_reply(next, inbox, ask.into()).await {
            return Fetched::Failed(error.to_string());
        }
        let end = Instant::now() + FETCH_EXPIRES + FETCH_GRACE;
        // The server says nothing when it has given all that was asked for.
        for _ in 0..FETCH {
            let message = match tokio::time::timeout_at(end, messages.next()).await {
                Ok(Some(message)) => message,
                Ok(None) => return Fetched::Failed("connection was closed".into()),
                Err(_) => return Fetched::Silent,
            };
            match message.status {
                None | Some(StatusCode::OK) => {}
                Some(StatusCode::NO_RESPONDERS) => return Fetched::NoConsumer,
                // The end of this fetch, for whatever reason.
                Some(_) => return Fetched::Done,
            }
            if Instant::now() >= *until.borrow() {
                return Fetched::LeaseOver;
            }
            let delivery = message.reply.and_then(|reply| stream_sequence(&reply).map(|sequence| (reply, sequence)));
            let Some((reply, sequence)) = delivery else {
                return Fetched::Failed("a delivery does not say which message it is".into());
            };
            match envelope::stream_of(self.shard, &message.subject) {
                // A mark: the stream begins in another shard, whose worker is woken.
                _ if message.headers.as_ref().is_some_and(requests::is_moved) => {}
                Ok(stream_id) => {
                    if self.wake_ups.send(PendingWakeUp { term, stream_id, sequence }).await.is_err() {
                        return Fetched::Unheard;
                    }
                }
                Err(error) => warn!(shard = self.shard, %error, "wake-up for no stream"),
            }
            *seen = sequence.max(*seen);
            if Instant::now() >= *until.borrow() {
                return Fetched::LeaseOver;
            }
            // An acknowledgement that gets lost only repeats the wake-up.
            if let Err(error) = client.publish(reply, "+ACK".into()).await {
                return Fetched::Failed(error.to_string());
            }
        }
        Fetched::Done
    }
}

/// The stream sequence of a delivered message, as the subject of its acknowledgement says (NATS ADR-15).
fn stream_sequence(reply: &str) -> Option<u64> {
    let tokens: Vec<&str> = reply.split('.').collect();
    // The longer form names domain and account in front of the stream.
    let at = match tokens.len() {
        9 => 5,
        11.. => 7,
        _ => return None,
    };
    tokens[at].parse().ok()
}

enum Fetched {
    /// The server ended the fetch, or gave all that was asked for.
    Done,
    /// Nothing said that it ended.
    Silent,
    NoConsumer,
    /// The lease has run out: nothing may be taken from the consumer.
    LeaseOver,
    /// Nobody listens to the wake-ups.
    Unheard,
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_names_the_stream_sequence() {
        assert_eq!(stream_sequence("$JS.ACK.EVT_00.saga_00.1.42.7.1700000000000000000.0"), Some(42));
        assert_eq!(stream_sequence("$JS.ACK._.hash.EVT_00.saga_00.1.42.7.1700000000000000000.0.random"), Some(42));
        assert_eq!(stream_sequence("_INBOX.abc"), None);
    }
}
