//! Raw messages exactly as the streams hold them, for readers that verify them independently: auditors and checkpoints.
//!
//! [`journal`] gives commits and refuses other messages. Here everything is given, whatever it is, and nothing is
//! believed. Reading needs no more than an auditor may do: `STREAM.NAMES`, `STREAM.INFO` and Direct Gets.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use async_nats::{Client, HeaderName, HeaderValue};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep};

use events::{Hash32, time::Timestamp};
use journal::envelope::{self, Envelope};

use crate::requests::{self, BatchRequest, Pick, Stored};

/// Most messages one Direct Get asks for.
pub const BATCH_MESSAGES: usize = 512;
/// Most bytes one Direct Get asks for.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Headers that the server adds to the answer of a Direct Get; they are not part of what is stored.
const ADDED_BY_DIRECT_GET: [&str; 7] = [
    "Nats-Stream",
    "Nats-Subject",
    "Nats-Sequence",
    "Nats-Time-Stamp",
    "Nats-Num-Pending",
    "Nats-Last-Sequence",
    "Nats-UpTo-Sequence",
];

/// A stored message, whatever it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMessage {
    /// The stream that holds it.
    pub stream: String,
    /// Its sequence there.
    pub sequence: u64,
    /// Its subject.
    pub subject: String,
    /// Its headers by name, each with its values in order.
    pub headers: BTreeMap<String, Vec<String>>,
    /// Its body.
    pub body: Bytes,
    /// When it was stored; of a message that was brought back from a copy, when it was first.
    pub stored_at: Timestamp,
}

impl RawMessage {
    /// The envelope, when the message has one.
    ///
    /// # Errors
    /// [`envelope::Error::Header`] naming the header that is missing, repeated or of the wrong form.
    pub fn envelope(&self) -> Result<Envelope, envelope::Error> {
        // A value that cannot be a header counts as missing.
        let named = self.headers.iter().filter(|(name, _)| name.parse::<HeaderName>().is_ok());
        let pairs = named.flat_map(|(name, values)| values.iter().map(move |value| (name.as_str(), value.as_str())));
        Envelope::read(&self.subject, pairs.filter(|(_, value)| value.parse::<HeaderValue>().is_ok()))
    }

    /// The hash of the message: that of [`envelope`], or where it has no envelope, SHA-256 over the subject, two line
    /// breaks and the body. No message with an envelope has a preimage of that form.
    pub fn hash(&self) -> Hash32 {
        if let Ok(envelope) = self.envelope() {
            return envelope.hash(&self.body);
        }
        let mut hasher = Sha256::new();
        hasher.update(format!("{}\n\n", self.subject));
        hasher.update(&self.body);
        Hash32(hasher.finalize().into())
    }

    /// The one value of a header; `None` when it is missing or repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        match self.headers.get(name).map(Vec::as_slice) {
            Some([value]) => Some(value),
            _ => None,
        }
    }

    fn from_stored(stream: &str, stored: Stored) -> Self {
        let text = |values: &Vec<HeaderValue>| values.iter().map(|value| value.as_str().to_owned()).collect();
        let headers = stored.headers.iter().map(|(name, values)| (name.to_string(), text(values)));
        let headers = headers.filter(|(name, _)| !ADDED_BY_DIRECT_GET.contains(&name.as_str()));
        Self {
            stream: stream.to_owned(),
            sequence: stored.sequence,
            subject: stored.subject,
            headers: headers.collect(),
            body: stored.body,
            stored_at: stored.stored_at,
        }
    }
}

/// The server gave no answer within the time allowed; nothing may be concluded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("NATS gives no answer about {what}: {reason}")]
pub struct Unavailable {
    /// What was asked for.
    pub what: String,
    /// The outcome.
    pub reason: String,
}

/// The description of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDescription {
    /// Its metadata.
    pub metadata: HashMap<String, String>,
    /// The subjects that it takes, with wildcards.
    pub takes: Vec<String>,
    /// Whether it takes nothing any more.
    pub sealed: bool,
    /// When it was created, by the server's clock.
    pub created_at: Timestamp,
    /// Messages in it.
    pub messages: u64,
    /// What they take on disk.
    pub bytes: u64,
    /// Their different subjects.
    pub subjects: u64,
}

/// Reads streams as they are. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RawReader {
    client: Client,
    /// How long one read tries.
    timeout: Duration,
    /// How long one request waits for its answer before it is asked again.
    attempt_timeout: Duration,
}

impl RawReader {
    /// A reader over `client` of which each read tries for `timeout`.
    pub fn new(client: Client, timeout: Duration) -> Self {
        Self { client, timeout, attempt_timeout: timeout.min(Duration::from_secs(3)) }
    }

    /// The names of all streams, sorted.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn streams(&self) -> Result<Vec<String>, Unavailable> {
        let timeout = self.attempt_timeout;
        let mut names = self.retrying("the streams", || requests::stream_names(&self.client, timeout)).await?;
        names.sort();
        Ok(names)
    }

    /// The last sequence of `stream`, from its leader.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn head(&self, stream: &str) -> Result<u64, Unavailable> {
        let timeout = self.attempt_timeout;
        self.retrying(stream, || requests::last_sequence(&self.client, stream, timeout)).await
    }

    /// The sequence of the last message that is in `stream`, from its leader; `None` when it is empty. Where messages are taken out,
    /// it is before [`RawReader::head`].
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn last_held(&self, stream: &str) -> Result<Option<u64>, Unavailable> {
        let pick = Pick::Last { subject: ">" };
        let timeout = self.attempt_timeout;
        let last = self.retrying(stream, || requests::leader_get(&self.client, stream, &pick, timeout)).await?;
        Ok(last.map(|last| last.sequence))
    }

    /// The description of `stream`, from its leader; `None` when there is no such stream.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn describe(&self, stream: &str) -> Result<Option<StreamDescription>, Unavailable> {
        let timeout = self.attempt_timeout;
        let described = self.retrying(stream, || requests::description(&self.client, stream, timeout)).await?;
        Ok(described.map(|described| StreamDescription {
            metadata: described.config.metadata,
            takes: described.config.subjects,
            sealed: described.config.sealed,
            created_at: described.created,
            messages: described.state.messages,
            bytes: described.state.bytes,
            subjects: described.state.num_subjects,
        }))
    }

    /// Up to `limit` messages of `stream`, at most [`BATCH_MESSAGES`], with sequence at or above `from`, in order; with
    /// `subject`, of that subject alone. From whichever replica answers, which may be behind the leader.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn batch(
        &self,
        stream: &str,
        from: u64,
        subject: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RawMessage>, Unavailable> {
        let batch = limit.clamp(1, BATCH_MESSAGES);
        let request = BatchRequest { seq: from.max(1), subject, batch, max_bytes: BATCH_BYTES };
        let read = || requests::direct_batch(&self.client, stream, &request, self.attempt_timeout);
        let messages = self.retrying(stream, read).await?;
        Ok(messages.into_iter().map(|message| RawMessage::from_stored(stream, message)).collect())
    }

    /// All messages of `subject` in `stream` with sequence from `from` to `up_to`, in order. From whichever replica
    /// answers, which may be behind the leader.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn subject(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
        up_to: u64,
    ) -> Result<Vec<RawMessage>, Unavailable> {
        let (mut messages, mut next) = (Vec::new(), from.max(1));
        while next <= up_to {
            let batch = self.batch(stream, next, Some(subject), BATCH_MESSAGES).await?;
            let Some(last) = batch.last() else { break };
            next = last.sequence + 1;
            messages.extend(batch.into_iter().filter(|message| message.sequence <= up_to));
        }
        Ok(messages)
    }

    /// The last message of `subject` in `stream`, from whichever replica answers.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn last(&self, stream: &str, subject: &str) -> Result<Option<RawMessage>, Unavailable> {
        let read = || requests::direct_last(&self.client, stream, subject, self.attempt_timeout);
        Ok(self.retrying(stream, read).await?.map(|message| RawMessage::from_stored(stream, message)))
    }

    /// The first message of `subject` in `stream` with sequence at or above `from`, from its leader, who knows every
    /// acknowledged message.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn next_of_leader(
        &self,
        stream: &str,
        from: u64,
        subject: &str,
    ) -> Result<Option<RawMessage>, Unavailable> {
        let (pick, timeout) = (Pick::Next { from: from.max(1), subject }, self.attempt_timeout);
        let next = self.retrying(stream, || requests::leader_get(&self.client, stream, &pick, timeout)).await?;
        Ok(next.map(|message| RawMessage::from_stored(stream, message)))
    }

    async fn retrying<T, F>(&self, what: &str, mut read: impl FnMut() -> F) -> Result<T, Unavailable>
    where
        F: Future<Output = Result<T, String>>,
    {
        let deadline = Instant::now() + self.timeout;
        let unavailable = |reason| Unavailable { what: what.to_owned(), reason };
        loop {
            if !requests::connected_by(&self.client, deadline).await {
                return Err(unavailable("no connection".to_owned()));
            }
            match read().await {
                Err(_) if Instant::now() + RETRY_PAUSE < deadline => sleep(RETRY_PAUSE).await,
                other => return other.map_err(unavailable),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(headers: &[(&str, &str)]) -> RawMessage {
        let mut map = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in headers {
            map.entry((*name).to_owned()).or_default().push((*value).to_owned());
        }
        RawMessage {
            stream: "EVT_00".into(),
            sequence: 1,
            subject: "gw.evt.00.x".into(),
            headers: map,
            body: Bytes::from_static(b"Gw-Type:A\n"),
            stored_at: "2026-01-02T03:04:05Z".parse().unwrap(),
        }
    }

    #[test]
    fn every_message_has_a_hash_and_an_envelope_changes_it() {
        let zero = Hash32::ZERO.to_string();
        let whole = [
            ("Gw-Type", "A"),
            ("Gw-Schema", "1"),
            ("Gw-Version", "1"),
            ("Gw-Correlation", "c"),
            ("Gw-Causation", "c"),
            ("Gw-Prev", zero.as_str()),
            ("Nats-Msg-Id", "cmt"),
        ];
        let enveloped = message(&whole);
        assert_eq!(enveloped.hash(), enveloped.envelope().unwrap().hash(&enveloped.body));
        let bare = message(&[]);
        assert_eq!(bare.hash(), Hash32::sha256("gw.evt.00.x\n\nGw-Type:A\n"));
        let twice = message(&[&whole[..], &[("Gw-Type", "A")]].concat());
        assert!(twice.envelope().is_err() && twice.header("Gw-Type").is_none());
        assert_eq!(twice.hash(), bare.hash());
        assert_ne!(enveloped.hash(), bare.hash());
    }
}
