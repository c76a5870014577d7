//! The parking (dead letters) on NATS JetStream: stream `PARK`, a subject `gw.park.{partition}.{stream_id}` for each stream
//! that was ever parked, everything kept as an audit trail.
//!
//! There are as many partitions as the journal's first epoch has shards, for ever. A stream's partition follows from its id
//! alone, so parking and replaying a stream need not know its epoch.
//!
//! The server must permit publishing to `gw.park.>`, `$JS.API.STREAM.MSG.GET.PARK` and `$JS.API.DIRECT.GET.PARK`, for
//! [`NatsParking::connect`] also to `$JS.API.STREAM.INFO.PARK` and `$JS.API.STREAM.CREATE.PARK`, and subscribing to
//! `gw.park.>` and the connection's inbox.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use async_nats::{Client, HeaderMap, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout, timeout_at},
};
use tracing::debug;

use events::{CommitId, Epoch, StreamId, mutant};
use journal::parking::{Entry, Error, Parked, Parking, ParkingPartition, Record, Replayed};

pub use crate::requests::ConnectError;
use crate::requests::{self, BatchRequest, MESSAGE_ID, Pick, Published, Stored, StreamPlan};

/// Name of the JetStream stream that holds the parking.
pub const STREAM: &str = "PARK";
/// Subjects of all entries.
const ALL: &str = "gw.park.*.*";
/// All that the stream has, which is the same; the server finds the last of it without a search.
const EVERYTHING: &str = ">";
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// How often a partition looks for new entries besides listening for them.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const BATCH_MESSAGES: usize = 512;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Options of the parking: layout and time-outs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of partitions: the shards of the journal's first epoch.
    pub shards: u16,
    /// Replicas of the stream: 1 on one machine, 3 in a cluster.
    pub replicas: usize,
    /// How long an entry or a read tries.
    pub timeout: Duration,
    /// How long one request waits for its answer before it is asked again.
    pub attempt_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { shards: 8, replicas: 1, timeout: Duration::from_secs(5), attempt_timeout: Duration::from_secs(2) }
    }
}

/// The parking on JetStream. Cheap to clone.
#[derive(Clone)]
pub struct NatsParking(Arc<Inner>);

struct Inner {
    client: Client,
    options: Options,
    folded: Mutex<Folded>,
}

/// What is parked by the stream up to a sequence: the stream is read once, and then on from there.
#[derive(Default)]
struct Folded {
    /// The last sequence that was read.
    read: u64,
    /// The newest entry of each stream that is parked by it.
    parked: BTreeMap<StreamId, Record>,
}

impl Folded {
    fn take(&mut self, stored: &Stored) {
        self.read = stored.sequence;
        let Some(record) = record(stored) else { return };
        if record.is_parked() {
            self.parked.insert(record.stream_id.clone(), record);
        } else {
            self.parked.remove(&record.stream_id);
        }
    }
}

impl NatsParking {
    /// Opens the parking, creating its stream when it is missing.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when the stream exists with other settings, [`ConnectError::Unavailable`] when the
    /// server does not answer.
    pub async fn connect(client: Client, options: Options) -> Result<Self, ConnectError> {
        let plan = StreamPlan {
            name: STREAM.to_owned(),
            subject: ALL.to_owned(),
            replicas: options.replicas,
            metadata: HashMap::new(),
        };
        plan.ensure(&async_nats::jetstream::new(client.clone()), true).await?;
        Ok(Self(Arc::new(Inner { client, options, folded: Mutex::default() })))
    }

    /// The same parking over another connection.
    pub fn over(&self, client: Client) -> Self {
        Self(Arc::new(Inner { client, options: self.0.options.clone(), folded: Mutex::default() }))
    }
}

/// The subjects of the partitions in which the streams of a shard can be: one partition where the number of shards of the
/// epoch is a multiple of that of the partitions, and all partitions otherwise.
fn partition_subjects(partitions: u16, epoch: &Epoch, shard: u16) -> String {
    // Partition and shard are remainders of the same number.
    let index = shard.saturating_sub(epoch.first);
    if epoch.shards.is_multiple_of(partitions) {
        format!("gw.park.{:02}.*", index % partitions)
    } else {
        ALL.to_owned()
    }
}

/// The entry that a message is; `None` for a subject that names no stream, which no entry can have.
fn record(stored: &Stored) -> Option<Record> {
    let stream_id: StreamId = stored.subject.rsplit('.').next()?.parse().ok()?;
    let entry = Entry::decode(&stream_id, &stored.body);
    Some(Record { stream_id, sequence: stored.sequence, stored_at: stored.stored_at, entry })
}

fn has_message_id(stored: &Stored, message_id: &CommitId) -> bool {
    stored.headers.get(MESSAGE_ID).is_some_and(|id| id.as_str() == message_id.as_str())
}

impl Inner {
    fn subject(&self, stream_id: &StreamId) -> String {
        format!("gw.park.{:02}.{stream_id}", stream_id.shard(self.options.shards))
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// A message by way of the stream's leader, who knows every acknowledged entry.
    async fn leader(&self, stream: &str, pick: &Pick<'_>, deadline: Instant) -> Result<Option<Stored>, Error> {
        let mut pause = PAUSE_MIN;
        loop {
            if !requests::connected_by(&self.client, deadline).await {
                return Err(Error::Unavailable("no connection".into()));
            }
            match requests::leader_get(&self.client, stream, pick, self.options.attempt_timeout).await {
                Ok(found) => return Ok(found),
                Err(reason) if Instant::now() + pause >= deadline => return Err(Error::Unavailable(reason)),
                Err(_) => sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// The newest message of a stream's history.
    async fn newest(&self, subject: &str, deadline: Instant) -> Result<Option<Stored>, Error> {
        self.leader(STREAM, &Pick::Last { subject }, deadline).await
    }

    /// All messages of `subjects` from sequence `from` on that were acknowledged before the call.
    async fn messages(&self, subjects: &str, from: u64) -> Result<Vec<Stored>, Error> {
        let mut messages: Vec<Stored> = Vec::new();
        self.each(subjects, from, |stored| messages.push(stored)).await?;
        Ok(messages)
    }

    /// The same, each given to `take` as soon as it is read.
    async fn each(&self, subjects: &str, from: u64, mut take: impl FnMut(Stored)) -> Result<(), Error> {
        let deadline = self.deadline();
        let mut next = from.max(1);
        loop {
            // Whichever replica answers gives the bulk; what it does not have yet comes from the leader, one by one.
            let request =
                BatchRequest { seq: next, subject: Some(subjects), batch: BATCH_MESSAGES, max_bytes: BATCH_BYTES };
            let batch = requests::direct_batch(&self.client, STREAM, &request, self.options.attempt_timeout).await;
            match batch {
                Ok(batch) if batch.is_empty() => break,
                Ok(batch) => {
                    next = batch.last().map_or(next, |last| last.sequence + 1);
                    batch.into_iter().for_each(&mut take);
                }
                Err(reason) => {
                    debug!(reason, "the leader is asked for the whole history");
                    break;
                }
            }
        }
        while let Some(found) = self.leader(STREAM, &Pick::Next { from: next, subject: subjects }, deadline).await? {
            next = found.sequence + 1;
            take(found);
        }
        Ok(())
    }

    async fn publish(&self, subject: &str, message_id: &CommitId, after: u64, body: &[u8]) -> Published {
        let mut headers = requests::conditional(message_id.as_str(), after);
        if mutant!("replay-not-conditional") {
            headers = HeaderMap::new();
        }
        let body = Bytes::copy_from_slice(body);
        requests::publish(&self.client, subject, headers, body, self.options.attempt_timeout).await
    }
}

/// The reason of a publish that was not acknowledged as stored.
fn unstored(published: Published) -> Result<String, Error> {
    match published {
        Published::TooLarge(reason) => Err(Error::Refused(reason)),
        Published::NotStored(reason) | Published::Sealed(reason) | Published::Unclear(reason) => Ok(reason),
        Published::WrongSequence => Ok("another came first".to_owned()),
        Published::Stored { sequence } | Published::Duplicate { sequence } => Ok(format!("stored at {sequence}")),
    }
}

#[async_trait]
impl Parking for NatsParking {
    async fn park(&self, stream_id: &StreamId, after: u64, parked: &Parked) -> Result<Record, Error> {
        let inner = &self.0;
        let (subject, deadline) = (inner.subject(stream_id), inner.deadline());
        let body = Entry::Parked(parked.clone()).encode(stream_id)?;
        let message_id = CommitId::random();
        let mut pause = PAUSE_MIN;
        loop {
            if !requests::connected_by(&inner.client, deadline).await {
                return Err(Error::Unavailable("no connection".into()));
            }
            let reason = unstored(inner.publish(&subject, &message_id, after, &body).await)?;
            // The stream's own word also when it was acknowledged: it has the time of storage, and what may have come
            // behind it. Nothing is ever taken out, so whatever lies behind `after` is in force.
            match inner.newest(&subject, deadline).await? {
                Some(newest) if newest.sequence > after => {
                    return record(&newest).ok_or_else(|| Error::Refused(format!("{subject} names no stream")));
                }
                None if after > 0 => return Err(Error::Refused(format!("there is no entry at sequence {after}"))),
                _ => {}
            }
            if Instant::now() + pause >= deadline {
                return Err(Error::Unavailable(reason));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn replay(&self, stream_id: &StreamId, replayed: &Replayed) -> Result<Record, Error> {
        let inner = &self.0;
        let (subject, deadline) = (inner.subject(stream_id), inner.deadline());
        let entry = Entry::Replayed(replayed.clone());
        let body = entry.encode(stream_id)?;
        let message_id = CommitId::random();
        let mut pause = PAUSE_MIN;
        loop {
            let newest = inner.newest(&subject, deadline).await?;
            let known = newest.as_ref().and_then(record);
            if let (Some(stored), Some(known)) = (&newest, &known)
                && has_message_id(stored, &message_id)
            {
                return Ok(known.clone());
            }
            let Some(known) = known.filter(Record::is_parked) else { return Err(Error::NotParked(stream_id.clone())) };
            let published = inner.publish(&subject, &message_id, known.sequence, &body).await;
            if let Published::Stored { sequence } | Published::Duplicate { sequence } = published {
                // It may have been parked again since, so the entry is not read back.
                return Ok(Record { stream_id: stream_id.clone(), sequence, stored_at: replayed.at, entry });
            }
            let reason = unstored(published)?;
            if Instant::now() + pause >= deadline {
                return Err(Error::Unavailable(reason));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn history(&self, stream_id: &StreamId) -> Result<Vec<Record>, Error> {
        let messages = self.0.messages(&self.0.subject(stream_id), 1).await?;
        Ok(messages.iter().filter_map(record).collect())
    }

    async fn parked(&self) -> Result<Vec<Record>, Error> {
        let inner = &self.0;
        let deadline = inner.deadline();
        let busy = |_| Error::Unavailable("somebody else reads it, and is not done".to_owned());
        let mut folded = timeout_at(deadline, inner.folded.lock()).await.map_err(busy)?;
        let head = inner.newest(EVERYTHING, deadline).await?.map_or(0, |last| last.sequence);
        if head < folded.read {
            // The stream was made anew.
            *folded = Folded::default();
        }
        if head > folded.read {
            // What is read stays, also when nobody waits for the rest any more.
            let from = folded.read + 1;
            inner.each(ALL, from, |stored| folded.take(&stored)).await?;
        }
        let mut parked: Vec<Record> = folded.parked.values().cloned().collect();
        parked.sort_unstable_by_key(|record| record.sequence);
        Ok(parked)
    }

    fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition> {
        let subjects = partition_subjects(self.0.options.shards, &epoch, shard);
        Box::new(NatsPartition { inner: self.0.clone(), epoch, shard, subjects, next: None, heard: None })
    }
}

struct NatsPartition {
    inner: Arc<Inner>,
    epoch: Epoch,
    shard: u16,
    subjects: String,
    /// Sequence from which to look; `None` before the first look.
    next: Option<u64>,
    heard: Option<Subscriber>,
}

#[async_trait]
impl ParkingPartition for NatsPartition {
    async fn next(&mut self) -> Result<Vec<Record>, Error> {
        loop {
            if self.heard.is_none() {
                self.heard = self.inner.client.subscribe(self.subjects.clone()).await.ok();
            }
            let first = self.next.is_none();
            let from = self.next.unwrap_or(1);
            let messages =
                if first { self.inner.messages(&self.subjects, from).await? } else { self.news(from).await? };
            self.next = Some(messages.last().map_or(from, |last| last.sequence + 1));
            let mut records: Vec<Record> = messages.iter().filter_map(record).collect();
            records.retain(|record| self.epoch.shard_of(&record.stream_id) == self.shard);
            if first || !records.is_empty() {
                return Ok(records);
            }
            self.wait().await;
        }
    }
}

impl NatsPartition {
    /// What has come since, from the leader: in most looks nothing, for one request.
    async fn news(&self, from: u64) -> Result<Vec<Stored>, Error> {
        let deadline = self.inner.deadline();
        let mut messages = Vec::new();
        let mut next = from;
        loop {
            let pick = Pick::Next { from: next, subject: &self.subjects };
            let Some(found) = self.inner.leader(STREAM, &pick, deadline).await? else { return Ok(messages) };
            next = found.sequence + 1;
            messages.push(found);
        }
    }

    /// Waits until an entry is heard, which may be about to be stored, or it is time to look again.
    async fn wait(&mut self) {
        let Some(heard) = &mut self.heard else { return sleep(LOOK_EVERY).await };
        match timeout(LOOK_EVERY, heard.next()).await {
            // Heard when it was sent, which is before it is stored; what is not there yet is found by the next look.
            Ok(Some(_)) => sleep(PAUSE_MIN).await,
            Err(_) => {}
            Ok(None) => self.heard = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::PaymentId;

    /// Whatever lies in a shard is parked where the shard's worker looks.
    #[test]
    fn the_partition_of_a_stream_is_among_those_of_its_shard() {
        let ids = (0..200).map(|number| StreamId::from(PaymentId::derive("payer", &number.to_string())));
        for stream_id in ids {
            for (partitions, shards) in [(8, 8), (8, 16), (8, 4), (8, 12), (1, 4), (3, 1)] {
                let epoch = Epoch { number: 1, first: 20, shards, sealed: false };
                let subjects = partition_subjects(partitions, &epoch, epoch.shard_of(&stream_id));
                let partition = format!("gw.park.{:02}.*", stream_id.shard(partitions));
                let expected = if shards % partitions == 0 { partition } else { ALL.to_owned() };
                assert_eq!(subjects, expected, "{partitions} partitions, {shards} shards");
            }
        }
    }
}
