//! The record of operators' acts on NATS JetStream: stream `OPERATOR_ACTS`, a subject `gw.acts.{act_id}` for each act,
//! with its order and its end; everything kept for ever (ADR 144).
//!
//! An order is stored on condition that its subject is empty, an end on condition that the order is the last of it.
//!
//! The server must permit publishing to `gw.acts.>`, `$JS.API.STREAM.MSG.GET.OPERATOR_ACTS`,
//! `$JS.API.DIRECT.GET.OPERATOR_ACTS` and `$JS.API.STREAM.INFO.OPERATOR_ACTS`, for [`NatsOperatorActs::open`] also to
//! `$JS.API.STREAM.CREATE.OPERATOR_ACTS`, and subscribing to the connection's inbox.

use std::{collections::HashMap, time::Duration};

use async_nats::Client;
use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use events::{CommitId, mutant, time::Timestamp};
use journal::operator_acts::{ActId, Entry, Error, OperatorActs, PAGE_MAX, Recorded};

pub use crate::requests::ConnectError;
use crate::{
    raw::{RawReader, Unavailable},
    requests::{self, Pick, Published, Stored, StreamPlan},
};

/// Name of the JetStream stream that holds the record.
pub const STREAM: &str = "OPERATOR_ACTS";
/// Subjects of all entries.
pub const SUBJECTS: &str = "gw.acts.*";
/// How long an entry or a read tries.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long one request waits for its answer before it is asked again.
const ATTEMPT_MAX: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// The record on JetStream. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NatsOperatorActs {
    client: Client,
    reader: RawReader,
}

impl NatsOperatorActs {
    /// Opens the record, creating its stream with so many `replicas` when it is missing: 1 on one machine, 3 in a
    /// cluster.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when the stream exists with other settings, [`ConnectError::Unavailable`] when the
    /// server does not answer.
    pub async fn open(client: Client, replicas: usize) -> Result<Self, ConnectError> {
        let plan =
            StreamPlan { name: STREAM.to_owned(), subject: SUBJECTS.to_owned(), replicas, metadata: HashMap::new() };
        plan.ensure(&async_nats::jetstream::new(client.clone()), true).await?;
        let reader = RawReader::new(client.clone(), TIMEOUT);
        Ok(Self { client, reader })
    }

    /// A message by way of the stream's leader, who knows every acknowledged entry.
    async fn leader(&self, pick: &Pick<'_>, deadline: Instant) -> Result<Option<Stored>, Error> {
        let mut pause = PAUSE_MIN;
        loop {
            if !requests::connected_by(&self.client, deadline).await {
                return Err(Error::Unavailable("no connection".to_owned()));
            }
            match requests::leader_get(&self.client, STREAM, pick, ATTEMPT_MAX).await {
                Ok(found) => return Ok(found),
                Err(reason) if Instant::now() + pause >= deadline => return Err(Error::Unavailable(reason)),
                Err(_) => sleep(pause).await,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Where the entry lies, or behind which message of its subject it may be stored.
    async fn place(&self, entry: &Entry, id: &ActId, body: &[u8], deadline: Instant) -> Result<Place, Error> {
        let subject = subject(id);
        let Some(first) = self.leader(&Pick::Next { from: 1, subject: &subject }, deadline).await? else {
            return match entry {
                Entry::Ended { .. } => Err(Error::NotOrdered(id.clone())),
                _ => Ok(Place::Behind(0)),
            };
        };
        if first.body == *body {
            return Ok(Place::Stored(first.sequence));
        }
        if !matches!(entry, Entry::Ended { .. }) {
            return Err(Error::Refused("another order has its id".to_owned()));
        }
        let last = self.leader(&Pick::Last { subject: &subject }, deadline).await?;
        match last.filter(|last| last.sequence > first.sequence) {
            None => Ok(Place::Behind(first.sequence)),
            Some(last) if last.body == *body => Ok(Place::Stored(last.sequence)),
            Some(_) => Err(Error::Refused("the act has ended otherwise".to_owned())),
        }
    }
}

/// Where an entry lies, or may.
enum Place {
    /// It is stored at this sequence.
    Stored(u64),
    /// It is not stored, and may be behind this sequence of its subject; 0 for none.
    Behind(u64),
}

fn subject(id: &ActId) -> String {
    format!("gw.acts.{id}")
}

/// An entry as it lies in the stream. Of a subject that names no act, which only somebody else can have written,
/// nothing is read.
fn recorded(sequence: u64, subject: &str, stored_at: Timestamp, body: &[u8]) -> Recorded {
    let id = subject.rsplit('.').next().and_then(|token| token.parse().ok());
    let entry = match id {
        Some(id) => Entry::decode(&id, body),
        None => Entry::Unknown { id: None, reason: "its subject names no act".to_owned() },
    };
    Recorded { sequence, stored_at, entry }
}

fn unavailable(error: Unavailable) -> Error {
    Error::Unavailable(error.reason)
}

#[async_trait]
impl OperatorActs for NatsOperatorActs {
    async fn record(&self, entry: &Entry) -> Result<u64, Error> {
        let body = Bytes::from(entry.encode()?);
        let Some(id) = entry.id() else { return Err(Error::Refused("it names no act".to_owned())) };
        let (subject, message_id) = (subject(id), CommitId::random());
        let deadline = Instant::now() + TIMEOUT;
        let mut pause = PAUSE_MIN;
        loop {
            // The stream's own word, also after an acknowledgement that was lost.
            let after = match self.place(entry, id, &body, deadline).await? {
                Place::Stored(sequence) => return Ok(sequence),
                Place::Behind(after) => after,
            };
            let headers = requests::conditional(message_id.as_str(), after);
            let reason = match requests::publish(&self.client, &subject, headers, body.clone(), ATTEMPT_MAX).await {
                Published::Stored { sequence } | Published::Duplicate { sequence } => return Ok(sequence),
                Published::TooLarge(reason) => return Err(Error::Refused(reason)),
                Published::Unclear(_) if mutant!("act-without-acknowledgement") => return Ok(after + 1),
                Published::WrongSequence => "another entry came first".to_owned(),
                Published::NotStored(reason) | Published::Sealed(reason) | Published::Unclear(reason) => reason,
            };
            if Instant::now() + pause >= deadline {
                return Err(Error::Unavailable(reason));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn newest(&self, before: Option<u64>, limit: usize) -> Result<Vec<Recorded>, Error> {
        let head = self.reader.head(STREAM).await.map_err(unavailable)?;
        // Nothing is ever taken out, so the sequences are without a gap.
        let end = before.map_or(head + 1, |before| before.min(head + 1));
        let mut next = end.saturating_sub(limit.min(PAGE_MAX) as u64).max(1);
        let mut found = Vec::new();
        while next < end {
            // Whichever replica answers gives the bulk; what it does not have yet comes from the leader, one by one.
            let wanted = usize::try_from(end - next).unwrap_or(PAGE_MAX);
            let batch = self.reader.batch(STREAM, next, None, wanted).await.map_err(unavailable)?;
            if let Some(last) = batch.last() {
                next = last.sequence + 1;
                let below = batch.iter().filter(|message| message.sequence < end);
                let below = below.map(|it| recorded(it.sequence, &it.subject, it.stored_at, &it.body));
                found.extend(below);
                continue;
            }
            let pick = Pick::Next { from: next, subject: SUBJECTS };
            let Some(message) = self.leader(&pick, Instant::now() + TIMEOUT).await? else { break };
            next = message.sequence + 1;
            if message.sequence < end {
                found.push(recorded(message.sequence, &message.subject, message.stored_at, &message.body));
            }
        }
        found.reverse();
        Ok(found)
    }
}
