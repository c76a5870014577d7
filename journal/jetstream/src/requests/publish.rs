//! Publishes: one message or an atomic batch, with a distinct result for every outcome.

use std::{sync::Arc, time::Duration};

use async_nats::{Client, HeaderMap, HeaderName, HeaderValue, Request, jetstream::ErrorCode};
use bytes::Bytes;
use serde::Deserialize;

use events::mutant;
use journal::envelope::{EXPECTED_SEQUENCE, EncodedCommit, MESSAGE_ID};

use super::{ApiError, request};

/// Headers of an atomic batch (NATS ADR-50): which one, the message's place in it from 1 on, and its end.
const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
/// The stream takes no batches.
const BATCHES_DISABLED: u64 = 10174;
/// Refusals of a whole batch: incomplete, too large, and with a message whose id the server remembers.
const BATCH_REFUSED: [u64; 3] = [10176, 10199, 10201];
/// Refusals given before anything is stored or proposed to the replicas, other than those of the expected sequence.
const REFUSED_BEFORE_STORING: [ErrorCode; 7] = [
    ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ErrorCode::INSUFFICIENT_RESOURCES,
    ErrorCode::STORAGE_RESOURCES_EXCEEDED,
    // An append to the same subject is in process; this one was not taken.
    ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT,
    // The leader does not yet know the last sequence of the subject.
    ErrorCode(10163),
    // Too many requests.
    ErrorCode(10167),
    // The publish names another stream than the one that takes its subject.
    ErrorCode::STREAM_NOT_MATCH,
];

/// The outcome of one publish.
#[derive(Debug)]
pub(crate) enum Published {
    /// This publish stored the message.
    Stored {
        /// Its stream sequence.
        sequence: u64,
    },
    /// The server remembers a message with the same id.
    Duplicate {
        /// The stream sequence of that message.
        sequence: u64,
    },
    /// The subject's last sequence is another than expected; not stored by this publish.
    WrongSequence,
    /// Not stored by this publish.
    NotStored(String),
    /// The stream is sealed; not stored by this publish, nor by any later one.
    Sealed(String),
    /// Larger than the server or the stream takes; not stored by this publish.
    TooLarge(String),
    /// Stored, not stored, or still on its way.
    Unclear(String),
}

/// A commit about to be published into its shard's stream. Its headers are made when it is sent, and only then.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub commit: Arc<EncodedCommit>,
    /// The last sequence of its subject on condition of which it is stored.
    pub expected: u64,
}

impl Outgoing {
    /// What is sent of it.
    pub(crate) fn ready(&self) -> Ready {
        Ready { subject: self.commit.envelope.subject.clone(), headers: self.headers(), body: self.commit.body.clone() }
    }

    fn headers(&self) -> HeaderMap {
        let headers = self.commit.headers(self.expected);
        header_map(headers.filter(|(name, _)| *name != EXPECTED_SEQUENCE || !mutant!("append-not-conditional")))
    }

    /// Publishes it by itself and waits for the acknowledgement.
    pub(crate) async fn publish(&self, client: &Client, timeout: Duration) -> Published {
        publish(client, &self.commit.envelope.subject, self.headers(), self.commit.body.clone(), timeout).await
    }
}

/// A message as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub subject: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The outcome of an atomic batch.
#[derive(Debug)]
pub(crate) enum PublishedBatch {
    /// All of its messages are stored, one behind the other.
    Stored {
        /// The stream sequence of the first.
        first: u64,
    },
    /// None of them is stored by this batch.
    Refused(String),
    /// The stream takes no batches; nothing is stored.
    Disabled,
    /// Stored, not stored, or still on its way; all of them or none.
    Unclear(String),
}

#[derive(Deserialize)]
struct PublishAnswer {
    #[serde(default)]
    seq: u64,
    /// Messages of an atomic batch.
    #[serde(default)]
    count: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<ApiError>,
}

/// Headers as the client wants them.
pub fn header_map(pairs: impl IntoIterator<Item = (&'static str, String)>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(HeaderName::from_static(name), value);
    }
    headers
}

/// Headers of a publish that is conditional on the last sequence of its subject.
pub(crate) fn conditional(message_id: &str, expected: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(MESSAGE_ID, message_id);
    headers.insert(EXPECTED_SEQUENCE, HeaderValue::from(expected));
    headers
}

/// Publishes into a stream and waits for the acknowledgement.
pub(crate) async fn publish(
    client: &Client,
    subject: &str,
    headers: HeaderMap,
    body: Bytes,
    timeout: Duration,
) -> Published {
    let message = Request::new().headers(headers).payload(body);
    let answer = match request(client, subject.to_owned(), message, timeout).await {
        Ok(answer) => answer,
        Err(outcome) => return outcome,
    };
    let answer: PublishAnswer = match serde_json::from_slice(&answer.payload) {
        Ok(answer) => answer,
        Err(error) => return Published::Unclear(format!("acknowledgement cannot be read: {error}")),
    };
    match answer.error {
        None if answer.seq == 0 => Published::Unclear("acknowledgement names no sequence".into()),
        None if answer.duplicate => Published::Duplicate { sequence: answer.seq },
        None => Published::Stored { sequence: answer.seq },
        Some(error) => refusal(&error),
    }
}

/// Publishes messages into one stream as an atomic batch (NATS ADR-50) and waits for the acknowledgement. Each is made when it is
/// sent.
pub(crate) async fn publish_batch(
    client: &Client,
    messages: impl ExactSizeIterator<Item = Ready>,
    timeout: Duration,
) -> PublishedBatch {
    let count = messages.len() as u64;
    let id = client.new_inbox();
    let id = id.rsplit('.').next().unwrap_or_default();
    let mut numbered = messages.zip(1..).map(|(mut message, number): (Ready, u64)| {
        message.headers.insert(HeaderName::from_static(BATCH_ID), id);
        message.headers.insert(HeaderName::from_static(BATCH_SEQUENCE), HeaderValue::from(number));
        message
    });
    let others_sent = async {
        for _ in 1..count {
            let Some(Ready { subject, headers, body }) = numbered.next() else { break };
            client.publish_with_headers(subject, headers, body).await?;
        }
        Ok::<_, async_nats::PublishError>(())
    };
    match tokio::time::timeout(timeout, others_sent).await {
        Ok(Ok(())) => {}
        // A batch that is not committed is never stored.
        Ok(Err(error)) => return PublishedBatch::Refused(error.to_string()),
        Err(_) => return PublishedBatch::Refused("no room in the connection's queue in time".into()),
    }
    let Some(Ready { subject, mut headers, body }) = numbered.next() else {
        return PublishedBatch::Refused("a batch without messages".into());
    };
    headers.insert(BATCH_COMMIT, "1");
    let answer = match request(client, subject, Request::new().headers(headers).payload(body), timeout).await {
        Ok(answer) => answer,
        Err(Published::Unclear(reason)) => return PublishedBatch::Unclear(reason),
        Err(Published::NotStored(reason) | Published::TooLarge(reason)) => return PublishedBatch::Refused(reason),
        Err(other) => return PublishedBatch::Unclear(format!("{other:?}")),
    };
    let answer: PublishAnswer = match serde_json::from_slice(&answer.payload) {
        Ok(answer) => answer,
        Err(error) => return PublishedBatch::Unclear(format!("acknowledgement cannot be read: {error}")),
    };
    match answer.error {
        None if answer.count == count && answer.seq >= count => {
            PublishedBatch::Stored { first: answer.seq - count + 1 }
        }
        None => PublishedBatch::Unclear("acknowledgement is not that of the batch".into()),
        Some(error) if error.err_code == BATCHES_DISABLED => PublishedBatch::Disabled,
        Some(error) if BATCH_REFUSED.contains(&error.err_code) => {
            PublishedBatch::Refused(format!("{} ({})", error.description, error.err_code))
        }
        Some(error) => match refusal(&error) {
            Published::Unclear(reason) => PublishedBatch::Unclear(reason),
            certain => PublishedBatch::Refused(format!("{certain:?}")),
        },
    }
}

fn refusal(error: &ApiError) -> Published {
    let reason = format!("{} ({})", error.description, error.err_code);
    match ErrorCode(error.err_code) {
        ErrorCode::STREAM_WRONG_LAST_SEQUENCE => Published::WrongSequence,
        ErrorCode::STREAM_SEALED => Published::Sealed(reason),
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            Published::TooLarge(reason)
        }
        code if REFUSED_BEFORE_STORING.contains(&code) => Published::NotStored(reason),
        // Among them 10158, a message of the same id is in process, and 10077, which is also given when the store
        // closes under a message that the replicas had agreed on.
        _ => Published::Unclear(reason),
    }
}
