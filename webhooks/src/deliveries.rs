//! Deliveries as they are stored: the messages of each webhook, what became of them, and the snapshots and cursors that save reading
//! them from the beginning.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use chrono::TimeDelta;
use futures::stream::BoxStream;
use serde::{Serialize, de::DeserializeOwned};

use events::{PaymentId, time::Timestamp};

use crate::{
    message::{Due, Newest, Outcome},
    queue::{Limits, Queue, Snapshot},
    records::{Error, Record, Records, STATE_PREFIX, read_all},
    timetable::Timetable,
    webhook::WebhookId,
};

/// What the subjects of messages and outcomes begin with.
pub const DELIVERIES: &str = "gw.delivery";
/// Messages that are read at a time.
const PAGE: usize = 256;
/// Pages that are looked through for what happened in a time.
const PAGES_BETWEEN_MAX: usize = 64;
/// How often a message is put into the queue again.
pub const REDELIVERIES_MAX: u32 = 10;
/// Longest that another's append to the same subject is made way for.
const CONFLICTS_MAX: u32 = 16;
/// How much later than its commit a message may have been stored to be found by the commit's time: as after an outage.
const LATE_MAX: TimeDelta = TimeDelta::hours(6);

/// The streams of deliveries. Cheap to clone.
#[derive(Clone)]
pub struct Deliveries {
    records: Arc<dyn Records>,
    state: Arc<dyn Records>,
    /// How many partitions there are; fixed once there is a webhook.
    partitions: u16,
}

/// A message as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDue {
    /// Its sequence.
    pub sequence: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// The message.
    pub due: Due,
}

fn encode(value: &impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| Error::Unreadable(error.to_string()))
}

fn decode<T: DeserializeOwned>(record: &Record) -> Result<T, Error> {
    serde_json::from_slice(&record.body)
        .map_err(|error| Error::Unreadable(format!("{} at {}: {error}", record.subject, record.sequence)))
}

fn stored_due(record: &Record) -> Result<StoredDue, Error> {
    Ok(StoredDue { sequence: record.sequence, stored_at: record.stored_at, due: decode(record)? })
}

impl Deliveries {
    /// Over these streams, with so many partitions.
    pub fn new(records: Arc<dyn Records>, state: Arc<dyn Records>, partitions: u16) -> Self {
        Self { records, state, partitions: partitions.max(1) }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    fn subject(&self, webhook_id: &WebhookId, kind: &str, payment: &str) -> String {
        format!("{DELIVERIES}.{:02}.{webhook_id}.{kind}.{payment}", webhook_id.partition(self.partitions))
    }

    /// Puts a message into the webhook's queue, unless it is there; whether it is new. A message about a later commit of the payment
    /// must not have been put there before.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn enqueue(&self, webhook_id: &WebhookId, due: &Due) -> Result<bool, Error> {
        let new = |last: Option<&Due>| match last.map(Due::newest) {
            Some(Newest { version, .. }) if version > due.version => None,
            Some(Newest { version, commit_id }) if version == due.version && commit_id == due.commit_id => None,
            _ => Some(due.clone()),
        };
        self.append_due(webhook_id, &due.payment_id, new).await
    }

    /// Puts a message into the queue again, unless it was put there again [`REDELIVERIES_MAX`] times; whether it was.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn enqueue_again(&self, webhook_id: &WebhookId, due: &Due) -> Result<bool, Error> {
        let subject = self.subject(webhook_id, "due", due.payment_id.as_str());
        for _ in 0..CONFLICTS_MAX {
            let last = self.records.last(&subject).await?;
            let after = last.as_ref().map_or(0, |last| last.sequence);
            let newest = last.as_ref().map(decode::<Due>).transpose()?.map(|last| last.newest());
            // What comes behind `after` meanwhile makes the append fail, so none is missed.
            let of_payment = self.dues_of(webhook_id, &due.payment_id).await?;
            if of_payment.last().map_or(0, |last| last.sequence) < after {
                return Err(Error::Unavailable(format!("a copy lacks what is at {after} of {subject}")));
            }
            let before = of_payment.iter().filter(|stored| stored.due.id == due.id && stored.due.redelivery > 0);
            let redelivery = u32::try_from(before.count()).unwrap_or(u32::MAX).saturating_add(1);
            if redelivery > REDELIVERIES_MAX {
                return Ok(false);
            }
            let again = Due { redelivery, newest, ..due.clone() };
            match self.records.append(&subject, Some(after), encode(&again)?).await {
                Err(Error::Conflict) => {}
                stored => return stored.map(|_| true),
            }
        }
        Err(Error::Unavailable(format!("others kept coming first on {subject}")))
    }

    async fn append_due(
        &self,
        webhook_id: &WebhookId,
        payment_id: &PaymentId,
        decide: impl Fn(Option<&Due>) -> Option<Due>,
    ) -> Result<bool, Error> {
        let subject = self.subject(webhook_id, "due", payment_id.as_str());
        for _ in 0..CONFLICTS_MAX {
            let last = self.records.last(&subject).await?;
            let after = last.as_ref().map_or(0, |last| last.sequence);
            let last: Option<Due> = last.as_ref().map(decode).transpose()?;
            let Some(due) = decide(last.as_ref()) else { return Ok(false) };
            match self.records.append(&subject, Some(after), encode(&due)?).await {
                Err(Error::Conflict) => {}
                stored => return stored.map(|_| true),
            }
        }
        Err(Error::Unavailable(format!("others kept coming first on {subject}")))
    }

    /// Records what became of an attempt; its sequence.
    ///
    /// # Errors
    /// [`Error`]. It may be stored all the same; recording it again is harmless.
    pub async fn record(
        &self,
        webhook_id: &WebhookId,
        payment_id: &PaymentId,
        outcome: &Outcome,
    ) -> Result<u64, Error> {
        let subject = self.subject(webhook_id, "done", payment_id.as_str());
        self.records.append(&subject, None, encode(outcome)?).await
    }

    /// The next messages of a webhook with sequence at or above `from`, in order.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn dues(&self, webhook_id: &WebhookId, from: u64, limit: usize) -> Result<Vec<StoredDue>, Error> {
        let subjects = self.subject(webhook_id, "due", "*");
        self.records.read(&subjects, from, limit.min(PAGE)).await?.iter().map(stored_due).collect()
    }

    /// The messages of a webhook about one payment, in order.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn dues_of(&self, webhook_id: &WebhookId, payment_id: &PaymentId) -> Result<Vec<StoredDue>, Error> {
        let mut found = Vec::new();
        read_all(&*self.records, &self.subject(webhook_id, "due", payment_id.as_str()), 1, |record| {
            found.push(stored_due(&record)?);
            Ok(())
        })
        .await?;
        Ok(found)
    }

    /// The messages of a webhook whose commits were stored from `from` until before `until`, in order; of more than `limit` one more
    /// than that. Where in the stream they begin is found by halving, so it costs no more where there are many. `None` when more would have
    /// to be looked through than one call may.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn dues_between(
        &self,
        webhook_id: &WebhookId,
        from: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Option<Vec<StoredDue>>, Error> {
        let subjects = self.subject(webhook_id, "due", "*");
        let (mut low, mut high) = (1, self.records.head().await? + 1);
        // What lies below `low` was stored before `from`, what lies from `high` on was not. A message is stored after its commit.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.records.read(&subjects, middle, 1).await?.first() {
                Some(record) if record.stored_at < from => low = record.sequence + 1,
                _ => high = middle,
            }
        }
        let mut found = Vec::new();
        for _ in 0..PAGES_BETWEEN_MAX {
            let page = self.records.read(&subjects, low, PAGE).await?;
            let Some(last) = page.last() else { return Ok(Some(found)) };
            low = last.sequence + 1;
            for record in &page {
                let stored = stored_due(record)?;
                if stored.due.redelivery == 0 && (from..until).contains(&stored.due.occurred_at) {
                    found.push(stored);
                }
                if found.len() > limit || record.stored_at > until + LATE_MAX {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The queue of a webhook as far as it is recorded, and with as many messages as it takes.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn queue(&self, webhook_id: &WebhookId, limits: Limits, timetable: &Timetable) -> Result<Queue, Error> {
        let head = self.records.head().await?;
        let stored = self.state.last(&self.snapshot_subject(webhook_id)).await?;
        // One that cannot be read, as one of a later version, only costs reading everything.
        let snapshot: Option<Snapshot> = stored.and_then(|stored| decode(&stored).ok());
        let snapshot = snapshot.filter(|snapshot| snapshot.is_within(head)).unwrap_or_default();
        let mut queue = Queue::restore(snapshot, limits, timetable.clone());
        let done = self.subject(webhook_id, "done", "*");
        read_all(&*self.records, &done, queue.recorded_up_to() + 1, |record| {
            queue.record(record.sequence, &decode(&record)?);
            Ok(())
        })
        .await?;
        self.fill(webhook_id, &mut queue).await?;
        Ok(queue)
    }

    /// Reads messages into a queue until it takes no more or there are no more.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn fill(&self, webhook_id: &WebhookId, queue: &mut Queue) -> Result<(), Error> {
        while queue.wanted() > 0 {
            let page = self.dues(webhook_id, queue.read_up_to() + 1, queue.wanted()).await?;
            if page.is_empty() {
                return Ok(());
            }
            for StoredDue { sequence, due, .. } in page {
                queue.take(sequence, due);
            }
        }
        Ok(())
    }

    fn snapshot_subject(&self, webhook_id: &WebhookId) -> String {
        format!("{STATE_PREFIX}.queue.{webhook_id}")
    }

    /// Keeps a snapshot of a queue.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn keep(&self, webhook_id: &WebhookId, snapshot: &Snapshot) -> Result<(), Error> {
        self.state.append(&self.snapshot_subject(webhook_id), None, encode(snapshot)?).await.map(drop)
    }

    /// The webhooks of a partition that have messages with sequence at or above `from`, as far as one page goes, and the sequence of
    /// its last message.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn news(&self, partition: u16, from: u64) -> Result<(BTreeSet<WebhookId>, Option<u64>), Error> {
        let page = self.records.read(&format!("{DELIVERIES}.{partition:02}.*.due.*"), from, PAGE).await?;
        let webhook = |record: &Record| record.subject.split('.').nth(3)?.parse().ok();
        Ok((page.iter().filter_map(webhook).collect(), page.last().map(|last| last.sequence)))
    }

    /// The last sequence of the stream.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn head(&self) -> Result<u64, Error> {
        self.records.head().await
    }

    /// Hints that there are new messages in a partition.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn hints(&self, partition: u16) -> Result<BoxStream<'static, String>, Error> {
        self.records.hints(&format!("{DELIVERIES}.{partition:02}.*.due.*")).await
    }

    /// Sequence up to which the commits of a shard were turned into messages; `None` where that was not kept.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn cursor(&self, shard: u16) -> Result<Option<u64>, Error> {
        let stored = self.state.last(&cursor_subject(shard)).await?;
        stored.as_ref().map(decode).transpose()
    }

    /// Keeps the same.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn keep_cursor(&self, shard: u16, sequence: u64) -> Result<(), Error> {
        self.state.append(&cursor_subject(shard), None, encode(&sequence)?).await.map(drop)
    }
}

fn cursor_subject(shard: u16) -> String {
    format!("{STATE_PREFIX}.feed.{shard:02}")
}
