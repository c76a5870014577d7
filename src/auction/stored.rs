//! The last message of each of some subjects of a stream, in one request (Direct Get with `multi_last`, NATS ADR-31).

use std::time::Duration;

use async_nats::{Client, HeaderMap, StatusCode};
use bytes::Bytes;
use chrono::DateTime;
use futures::StreamExt;
use serde_json::json;

use events::time::Timestamp;

/// How long the server may take for the next message.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Most rounds of one look-up; each goes on where the server stopped for size.
const ROUNDS_MAX: usize = 64;

/// A message in a stream.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// Its subject.
    pub subject: String,
    /// When the stream stored it.
    pub stored_at: Timestamp,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub payload: Bytes,
}

/// Why nothing was found out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No stream of this name answers.
    #[error("the stream is not there")]
    Missing,
    /// The server cannot be reached, is too slow or says something unexpected.
    #[error("the stream cannot be read: {0}")]
    Unavailable(String),
}

impl Error {
    fn unavailable(error: impl ToString) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// The last message of each subject of `stream` that matches one of `subjects`.
pub async fn last_of_each(client: &Client, stream: &str, subjects: &[&str]) -> Result<Vec<StoredMessage>, Error> {
    let mut found = Vec::new();
    let mut from = 1;
    let mut up_to = None;
    for _ in 0..ROUNDS_MAX {
        let mut request = json!({ "multi_last": subjects, "seq": from });
        if let Some(sequence) = up_to {
            request["up_to_seq"] = json!(sequence);
        }
        let inbox = client.new_inbox();
        let mut answers = client.subscribe(inbox.clone()).await.map_err(Error::unavailable)?;
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        client.publish_with_reply(subject, inbox, request.to_string().into()).await.map_err(Error::unavailable)?;
        let end = loop {
            let answer = tokio::time::timeout(ANSWER_TIMEOUT, answers.next()).await.map_err(Error::unavailable)?;
            let answer = answer.ok_or_else(|| Error::unavailable("the connection was closed"))?;
            match answer.status {
                None => {
                    let headers = answer.headers.unwrap_or_default();
                    from = number(&headers, "Nats-Sequence").ok_or_else(|| Error::unavailable("no sequence"))? + 1;
                    found.push(message(headers, answer.payload)?);
                }
                // The end of the batch; more may be left.
                Some(StatusCode::OK) => return Err(Error::unavailable("unexpected status")),
                Some(status) if status.as_u16() == 204 => break answer.headers.unwrap_or_default(),
                Some(StatusCode::NOT_FOUND) => return Ok(found),
                Some(StatusCode::NO_RESPONDERS) => return Err(Error::Missing),
                Some(status) => return Err(Error::Unavailable(format!("status {status}"))),
            }
        };
        if number(&end, "Nats-Num-Pending").unwrap_or(0) == 0 {
            return Ok(found);
        }
        up_to = number(&end, "Nats-UpTo-Sequence");
    }
    Err(Error::unavailable("too many rounds"))
}

fn message(headers: HeaderMap, payload: Bytes) -> Result<StoredMessage, Error> {
    let text = |name| headers.get(name).map(|value| value.as_str().to_owned());
    let stored_at = text("Nats-Time-Stamp").and_then(|time| DateTime::parse_from_rfc3339(&time).ok());
    match (text("Nats-Subject"), stored_at) {
        (Some(subject), Some(stored_at)) => {
            Ok(StoredMessage { subject, stored_at: stored_at.into(), headers, payload })
        }
        _ => Err(Error::unavailable("a message without subject or time")),
    }
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.as_str().parse().ok()
}
