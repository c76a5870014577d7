//! The feed: follows a shard of the journal, and puts a message into the queue of each webhook that hears of a change of status.
//!
//! It moves on over a commit only when it has read every registration that was acknowledged before, and when the messages about it
//! are stored; what was done is known from the messages themselves, so beginning earlier than necessary is harmless.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use lru::LruCache;
use metrics::Gauge;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use events::PaymentId;
use journal::{ReadError, Recorded, StreamLog};
use net::server::ThrottledLog;
use projections::{Applied, PaymentView};

use crate::{
    deliveries::Deliveries,
    message::Due,
    metering::feed_lag,
    records,
    registry::Registry,
    webhook::{EventType, WebhookId},
};

/// Commits that are read at a time.
const PAGE: usize = 256;
/// Payments that are remembered between two of their commits.
const PAYMENTS_MAX: NonZeroUsize = match NonZeroUsize::new(2_048) {
    Some(max) => max,
    None => NonZeroUsize::MIN,
};
/// How often the cursor is kept while commits come.
const KEEP_EVERY: Duration = Duration::from_secs(5);
/// How often the shard is looked at while there is no webhook.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const RETRY: Duration = Duration::from_millis(500);
/// The same where the stream of messages is full, which takes an operator.
const FULL_PAUSE: Duration = Duration::from_secs(10);
/// Webhooks into whose queues one change is put at a time.
const AT_ONCE: usize = 8;

/// Turns commits into messages. Cheap to clone.
#[derive(Clone)]
pub struct Feed {
    log: Arc<dyn StreamLog>,
    registry: Registry,
    deliveries: Deliveries,
    /// As of the last commit that was looked at.
    views: Arc<Mutex<LruCache<PaymentId, PaymentView>>>,
}

/// Why the feed does not go on for now.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Records(#[from] records::Error),
    #[error(transparent)]
    Journal(#[from] ReadError),
}

/// How far a shard is.
struct Cursor {
    sequence: u64,
    kept: u64,
    kept_at: Instant,
}

impl Feed {
    /// Over these streams.
    pub fn new(log: Arc<dyn StreamLog>, registry: Registry, deliveries: Deliveries) -> Self {
        Self { log, registry, deliveries, views: Arc::new(Mutex::new(LruCache::new(PAYMENTS_MAX))) }
    }

    /// Follows a shard until `stop`.
    pub async fn run(&self, shard: u16, stop: CancellationToken) {
        let mut cursor: Option<Cursor> = None;
        let (lag, waits) = (feed_lag(shard), ThrottledLog::default());
        let follow = async {
            loop {
                match self.follow(shard, &mut cursor, &lag).await {
                    Ok(()) => {}
                    Err(error @ Error::Records(records::Error::Full)) => {
                        warn!(shard, %error, "the feed of webhooks waits until the stream has room");
                        sleep(FULL_PAUSE).await;
                    }
                    Err(error) => {
                        if let Some(times) = waits.count() {
                            warn!(shard, %error, times, "the feed of webhooks waits: NATS");
                        }
                        sleep(RETRY).await;
                    }
                }
            }
        };
        stop.run_until_cancelled(follow).await;
        // Whoever feeds the shard next says how far it is.
        lag.set(0.0);
        if let Some(cursor) = cursor.filter(|cursor| cursor.sequence > cursor.kept) {
            // Whoever comes next begins earlier without it.
            let kept = self.deliveries.keep_cursor(shard, cursor.sequence);
            let _ = tokio::time::timeout(KEEP_EVERY, kept).await;
        }
    }

    async fn follow(&self, shard: u16, cursor: &mut Option<Cursor>, lag: &Gauge) -> Result<(), Error> {
        let at = match cursor {
            Some(at) => at,
            None => cursor.insert(self.begin(shard).await?),
        };
        loop {
            self.log.wait_beyond(shard, at.sequence).await?;
            // In this order: whoever registered before what is there now is known then.
            let head = self.log.head(shard).await?;
            self.registry.catch_up().await?;
            lag.set(head.saturating_sub(at.sequence) as f64);
            if self.registry.is_empty() {
                at.sequence = head.max(at.sequence);
                sleep(LOOK_EVERY).await;
            } else {
                self.read_on(shard, at).await?;
            }
            if at.sequence > at.kept && at.kept_at.elapsed() >= KEEP_EVERY {
                self.deliveries.keep_cursor(shard, at.sequence).await?;
                (at.kept, at.kept_at) = (at.sequence, Instant::now());
            }
        }
    }

    /// Where the feed begins: where it was, at the end of a shard where there never was a webhook, and otherwise at the beginning.
    async fn begin(&self, shard: u16) -> Result<Cursor, Error> {
        let head = self.log.head(shard).await?;
        self.registry.catch_up().await?;
        let sequence = match self.deliveries.cursor(shard).await? {
            // A journal that was put in place from a copy may end before it.
            Some(sequence) if sequence <= head => sequence,
            None if self.registry.is_empty() => {
                self.deliveries.keep_cursor(shard, head).await?;
                head
            }
            _ => 0,
        };
        Ok(Cursor { sequence, kept: sequence, kept_at: Instant::now() })
    }

    async fn read_on(&self, shard: u16, at: &mut Cursor) -> Result<(), Error> {
        let commits = match self.log.replay(shard, at.sequence + 1, PAGE).await {
            Err(ReadError::Unreadable { sequence, reason, .. }) if sequence > at.sequence => {
                let before = usize::try_from(sequence - at.sequence - 1).unwrap_or(PAGE).min(PAGE);
                if before == 0 {
                    // Its payment is parked, and its webhooks hear nothing of it until it is mended.
                    warn!(shard, sequence, reason, "a commit that cannot be read is passed over by webhooks");
                    at.sequence = sequence;
                    return Ok(());
                }
                self.log.replay(shard, at.sequence + 1, before).await?
            }
            read => read?,
        };
        // After the read: whoever registered before one of these commits is known now.
        self.registry.catch_up().await?;
        for commit in commits {
            self.look_at(&commit).await?;
            at.sequence = commit.position.sequence;
        }
        Ok(())
    }

    async fn look_at(&self, commit: &Recorded) -> Result<(), Error> {
        let Some(payment_id) = commit.stream_id.payment().filter(|_| !commit.is_moved()) else { return Ok(()) };
        let Some((view, before)) = self.view_at(payment_id, commit).await? else { return Ok(()) };
        let kind = EventType::from(view.status);
        if before != Some(kind) {
            let hearing = self.registry.hearing(&view, kind, commit.stored_at);
            let dues = hearing.iter().map(|webhook| (&webhook.id, Due::new(&webhook.id, commit, payment_id, kind)));
            let told: Vec<_> = dues.map(|(id, due)| self.tell(id, due)).collect();
            stream::iter(told).buffered(AT_ONCE).try_collect::<()>().await?;
        }
        if !view.at_rest {
            self.views().put(payment_id.clone(), view);
        }
        Ok(())
    }

    /// Puts a message into the queue of a webhook. One whose records cannot be read is passed over, and holds up no other.
    async fn tell(&self, id: &WebhookId, due: Due) -> Result<(), Error> {
        match self.deliveries.enqueue(id, &due).await {
            Err(records::Error::Unreadable(reason)) => {
                error!(%id, message = %due.id, reason, "a webhook's messages cannot be read, and it is passed over");
                Ok(())
            }
            enqueued => Ok(enqueued.map(drop)?),
        }
    }

    /// The payment as of `commit`, and what was told of it before; `None` for a commit that changes nothing that is shown, or was
    /// looked at already.
    async fn view_at(
        &self,
        payment_id: &PaymentId,
        commit: &Recorded,
    ) -> Result<Option<(PaymentView, Option<EventType>)>, Error> {
        let version = commit.position.version;
        if version == 1 {
            return Ok(PaymentView::begin(commit).map(|view| (view, None)));
        }
        let known = self.views().pop(payment_id);
        let mut view = match known {
            Some(view) if view.version + 1 == version => view,
            _ => {
                let mut commits = match self.log.load(&commit.stream_id).await {
                    Err(ReadError::Unreadable { reason, .. }) => {
                        warn!(%payment_id, reason, "a payment that cannot be read is passed over by webhooks");
                        return Ok(None);
                    }
                    loaded => loaded?,
                };
                commits.retain(|earlier| earlier.position.version < version);
                match PaymentView::fold(&commits) {
                    Some(view) => view,
                    None => return Ok(None),
                }
            }
        };
        let before = EventType::from(view.status);
        Ok((view.apply(commit) == Applied::Next).then_some((view, Some(before))))
    }

    fn views(&self) -> std::sync::MutexGuard<'_, LruCache<PaymentId, PaymentView>> {
        // Nothing panics while it is held.
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
