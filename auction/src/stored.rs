//! Reading streams: the last message of each of some subjects in one request (Direct Get with `multi_last`, NATS ADR-31), and
//! the last one of a subject as the leader has it.

use std::time::Duration;

use async_nats::{
    Client, HeaderMap,
    jetstream::{self, ErrorCode, stream::LastRawMessageErrorKind},
};
use bytes::Bytes;
use chrono::DateTime;
use futures::StreamExt;
use serde_json::json;

use events::time::Timestamp;

/// How long the server may take for the next message.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Statuses of a Direct Get.
const END_OF_BATCH: u16 = 204;
const NOTHING_FOUND: u16 = 404;
const NO_RESPONDERS: u16 = 503;
/// Most bytes the server sends in one round, so that an answer does not wait behind another without end.
const ROUND_BYTES_MAX: usize = 4 * 1024 * 1024;
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

/// The last message under `subject` in `stream` with its sequence, as the stream's leader has it.
pub async fn last_of(
    jetstream: &jetstream::Context,
    stream: &str,
    subject: &str,
) -> Result<Option<(u64, Bytes)>, Error> {
    let stream = jetstream.get_stream_no_info(stream).await.map_err(Error::unavailable)?;
    match stream.get_last_raw_message_by_subject(subject).await {
        Ok(message) => Ok(Some((message.sequence, message.payload))),
        Err(error) => match error.kind() {
            LastRawMessageErrorKind::NoMessageFound => Ok(None),
            LastRawMessageErrorKind::JetStream(refused) if refused.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                Err(Error::Missing)
            }
            _ => Err(Error::unavailable(error)),
        },
    }
}

/// The last message of each subject of `stream` that matches one of `subjects`.
pub async fn last_of_each(client: &Client, stream: &str, subjects: &[&str]) -> Result<Vec<StoredMessage>, Error> {
    let mut found = Vec::new();
    let mut from = 1;
    let mut up_to = None;
    for _ in 0..ROUNDS_MAX {
        let mut request = json!({ "multi_last": subjects, "seq": from, "max_bytes": ROUND_BYTES_MAX });
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
                Some(status) => match status.as_u16() {
                    END_OF_BATCH => break answer.headers.unwrap_or_default(),
                    NOTHING_FOUND => return Ok(found),
                    NO_RESPONDERS => return Err(Error::Missing),
                    other => return Err(Error::Unavailable(format!("status {other}"))),
                },
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

#[cfg(test)]
mod tests {
    use anyhow::Result;
    use async_nats::jetstream::{self, stream};
    use devkit::NatsServer;

    use super::*;

    #[tokio::test]
    async fn finds_the_last_of_each_whatever_its_size() -> Result<()> {
        let server = NatsServer::open().await?;
        let client = async_nats::connect(server.url()).await?;
        assert_eq!(last_of_each(&client, "KEPT", &["kept.*"]).await.unwrap_err(), Error::Missing);

        let context = jetstream::new(client.clone());
        let config = stream::Config {
            name: "KEPT".to_owned(),
            subjects: vec!["kept.>".to_owned()],
            storage: stream::StorageType::Memory,
            allow_direct: true,
            ..Default::default()
        };
        context.create_stream(config).await?;
        assert!(last_of_each(&client, "KEPT", &["kept.*"]).await?.is_empty());

        // More than is sent in one round.
        let body = "x".repeat(60_000);
        let mut stored = Vec::new();
        for round in 0..2 {
            for number in 0..700 {
                stored.push(context.publish(format!("kept.{number}"), format!("{round}{body}").into()).await?);
            }
        }
        context.publish("kept.other.0", "".into()).await?.await?;
        for stored in stored {
            stored.await?;
        }
        let found = last_of_each(&client, "KEPT", &["kept.*"]).await?;
        assert_eq!(found.len(), 700);
        assert!(found.iter().all(|message| message.payload.starts_with(b"1")));
        let two = last_of_each(&client, "KEPT", &["kept.7", "kept.other.*", "kept.none"]).await?;
        let subjects: Vec<_> = two.iter().map(|message| message.subject.as_str()).collect();
        assert_eq!(subjects, ["kept.7", "kept.other.0"]);
        Ok(())
    }
}
