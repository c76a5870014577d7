//! The checkpoints on JetStream: stream `CHK`, one subject a shard, everything kept.
//!
//! Several gateways may write: each append is conditional on the last sequence of its subject, so of two one wins.

use std::{collections::HashMap, time::Duration};

use async_nats::Client;

use events::CommitId;
use journal::checkpoint::{self, STREAM, SignedCheckpoint};

pub use crate::requests::ConnectError;
use crate::{
    raw::{RawReader, Unavailable},
    requests::{self, Pick, Published, StreamPlan},
};

/// Messages of the stream that are looked through first for the one before the last; widened until it is found.
const LOOK_BACK: u64 = 512;

/// A stored checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it says, its signature verified.
    pub signed: SignedCheckpoint,
    /// Its sequence in stream `CHK`.
    pub sequence: u64,
}

/// Why the checkpoints of a shard cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No answer; retry.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A message among them is not a checkpoint.
    #[error("message {sequence} of {STREAM}: {error}")]
    Unreadable {
        /// Its sequence in `CHK`.
        sequence: u64,
        /// The defect.
        error: checkpoint::Error,
    },
}

/// The outcome of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// Stored at this sequence of `CHK`.
    Stored(u64),
    /// Another checkpoint of the shard came first.
    Lost,
}

/// The stream of checkpoints, for the gateways that write it.
#[derive(Debug, Clone)]
pub struct Store {
    client: Client,
    reader: RawReader,
    timeout: Duration,
}

impl Store {
    /// Opens the stream, creating it when it is missing.
    ///
    /// # Errors
    /// [`ConnectError::Mismatch`] when it exists with other settings, [`ConnectError::Unavailable`] when the server does
    /// not answer.
    pub async fn connect(client: Client, replicas: usize, timeout: Duration) -> Result<Self, ConnectError> {
        let plan =
            StreamPlan { name: STREAM.to_owned(), subject: "gw.chk.*".to_owned(), replicas, metadata: HashMap::new() };
        plan.ensure(&async_nats::jetstream::new(client.clone()), true).await?;
        let reader = RawReader::new(client.clone(), timeout);
        Ok(Self { client, reader, timeout })
    }

    /// The last checkpoint of a shard, from the stream's leader.
    pub(super) async fn last(&self, shard: u16) -> Result<Option<Found>, ReadError> {
        let subject = checkpoint::subject(shard);
        let last = requests::leader_get(&self.client, STREAM, &Pick::Last { subject: &subject }, self.timeout).await;
        let last = last.map_err(|reason| Unavailable { what: STREAM.to_owned(), reason })?;
        last.map(|message| found(message.sequence, &message.body)).transpose()
    }

    /// The checkpoint of a shard before the one at `sequence`.
    pub(super) async fn before(&self, shard: u16, sequence: u64) -> Result<Option<Found>, ReadError> {
        let mut width = LOOK_BACK;
        loop {
            let from = sequence.saturating_sub(width).max(1);
            let found = self.between(shard, from, sequence.saturating_sub(1)).await?;
            if found.is_empty() && from > 1 {
                width = width.saturating_mul(8);
                continue;
            }
            return Ok(found.into_iter().next_back());
        }
    }

    /// The checkpoints of a shard from sequence `from` to `up_to` of `CHK`.
    pub(super) async fn between(&self, shard: u16, from: u64, up_to: u64) -> Result<Vec<Found>, ReadError> {
        let messages = self.reader.subject(STREAM, &checkpoint::subject(shard), from, up_to).await?;
        messages.into_iter().map(|message| found(message.sequence, &message.body)).collect()
    }

    /// Appends a checkpoint behind the one at sequence `expected` of `CHK`, 0 for none. An acknowledgement that is lost is
    /// resolved by reading.
    pub(super) async fn append(&self, signed: &SignedCheckpoint, expected: u64) -> Result<Appended, ReadError> {
        let subject = checkpoint::subject(signed.checkpoint().shard);
        let headers = requests::conditional(CommitId::random().as_str(), expected);
        let body = signed.to_json();
        let reason = match requests::publish(&self.client, &subject, headers, body.into(), self.timeout).await {
            Published::Stored { sequence } => return Ok(Appended::Stored(sequence)),
            Published::WrongSequence => return Ok(Appended::Lost),
            Published::Duplicate { .. } => "the server takes it for a duplicate".to_owned(),
            Published::NotStored(reason) | Published::Sealed(reason) | Published::TooLarge(reason) => {
                return Err(Unavailable { what: subject, reason }.into());
            }
            Published::Unclear(reason) => reason,
        };
        match self.last(signed.checkpoint().shard).await? {
            Some(last) if last.signed == *signed => Ok(Appended::Stored(last.sequence)),
            Some(last) if last.sequence != expected => Ok(Appended::Lost),
            // It may still be on its way. The next one expects the same sequence, so only one of them can be stored.
            _ => Err(Unavailable { what: subject, reason }.into()),
        }
    }
}

fn found(sequence: u64, body: &[u8]) -> Result<Found, ReadError> {
    let signed = SignedCheckpoint::parse(body).map_err(|error| ReadError::Unreadable { sequence, error })?;
    Ok(Found { signed, sequence })
}
