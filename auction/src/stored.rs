//! Reading streams: the last message under a subject.
//!
//! What a settler has written is read by [`last_of`] alone, through `STREAM.MSG.GET`. A Direct Get answers with the stored
//! message's own headers and the server's behind them: a settler that writes `Nats-Subject`, `Nats-Time-Stamp` or a status into
//! its message says what looks like the server's word (ADR 119).

use std::time::Duration;

use async_nats::{Client, Message, Request, StatusCode, client::RequestErrorKind};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use events::time::Timestamp;

/// How long the server may take to answer where many streams are read.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Errors of JetStream's API: there is nothing under the subject, and no stream of this name.
const MESSAGE_NOT_FOUND: u64 = 10037;
const STREAM_NOT_FOUND: u64 = 10059;

/// A message in a stream, by the server's word about it. Its headers are whoever's who wrote it, and nobody reads them.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    /// Its number in the stream.
    pub sequence: u64,
    /// When the stream stored it.
    pub stored_at: Timestamp,
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

/// What `STREAM.MSG.GET` answers.
#[derive(Deserialize)]
struct Answer {
    message: Option<MessageText>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct MessageText {
    subject: String,
    seq: u64,
    time: Timestamp,
    /// In Base64; left out when it is empty.
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// The last message under `subject` in `stream`, as the stream's leader has it.
///
/// Whatever its writer put into it, the message is found as it is: its number and its time stand beside it in the answer.
///
/// # Errors
/// See [`Error`]. None is of the message's making.
pub async fn last_of(
    client: &Client,
    stream: &str,
    subject: &str,
    within: Duration,
) -> Result<Option<StoredMessage>, Error> {
    let asked = json!({ "last_by_subj": subject }).to_string();
    let answer = match ask(client, format!("$JS.API.STREAM.MSG.GET.{stream}"), asked.into(), within).await {
        // It is the API that nobody answers for, and not the stream.
        Err(Error::Missing) => return Err(Error::unavailable("JetStream does not answer")),
        answer => answer?,
    };
    let answer: Answer = serde_json::from_slice(&answer.payload).map_err(Error::unavailable)?;
    match answer {
        Answer { message: Some(message), .. } if message.subject == subject => {
            let payload = BASE64.decode(message.data).map_err(Error::unavailable)?.into();
            Ok(Some(StoredMessage { sequence: message.seq, stored_at: message.time, payload }))
        }
        Answer { error: Some(Refusal { err_code: MESSAGE_NOT_FOUND, .. }), .. } => Ok(None),
        Answer { error: Some(Refusal { err_code: STREAM_NOT_FOUND, .. }), .. } => Err(Error::Missing),
        Answer { error: Some(refusal), .. } => Err(Error::Unavailable(refusal.description)),
        Answer { .. } => Err(Error::unavailable("the answer has neither the message nor an error")),
    }
}

/// The body of the last message under `subject` in `stream`, which gateways alone write, as any replica has it.
///
/// # Errors
/// See [`Error`].
pub async fn any_replicas_last_of(client: &Client, stream: &str, subject: &str) -> Result<Option<Bytes>, Error> {
    let answer = ask(client, format!("$JS.API.DIRECT.GET.{stream}.{subject}"), Bytes::new(), ANSWER_TIMEOUT).await?;
    match answer.status {
        None => Ok(Some(answer.payload)),
        Some(StatusCode::NOT_FOUND) => Ok(None),
        Some(status) => Err(Error::Unavailable(format!("status {status}"))),
    }
}

/// [`Error::Missing`] when nobody listens.
async fn ask(client: &Client, subject: String, payload: Bytes, within: Duration) -> Result<Message, Error> {
    let request = Request::new().payload(payload).timeout(Some(within));
    client.send_request(subject, request).await.map_err(|error| match error.kind() {
        RequestErrorKind::NoResponders => Error::Missing,
        _ => Error::unavailable(error),
    })
}

#[cfg(test)]
mod tests {
    use async_nats::{
        HeaderMap,
        jetstream::{self, stream},
    };
    use chrono::Utc;
    use devkit::NatsServer;

    use super::*;

    async fn last(client: &Client, subject: &str) -> Result<Option<StoredMessage>, Error> {
        last_of(client, "KEPT", subject, ANSWER_TIMEOUT).await
    }

    #[tokio::test]
    async fn the_last_is_found_as_the_server_has_it_whatever_its_headers_say() -> anyhow::Result<()> {
        let server = NatsServer::open().await?;
        let client = async_nats::connect(server.url()).await?;
        assert_eq!(last(&client, "kept.a").await.unwrap_err(), Error::Missing);
        assert_eq!(any_replicas_last_of(&client, "KEPT", "kept.a").await, Err(Error::Missing));

        let context = jetstream::new(client.clone());
        let config = stream::Config {
            name: "KEPT".to_owned(),
            subjects: vec!["kept.>".to_owned()],
            storage: stream::StorageType::Memory,
            allow_direct: true,
            ..Default::default()
        };
        context.create_stream(config).await?;
        assert!(last(&client, "kept.a").await?.is_none());
        assert_eq!(any_replicas_last_of(&client, "KEPT", "kept.a").await, Ok(None));

        let before = Utc::now();
        let largest = Bytes::from(vec![0xff; protocol::MESSAGE_BYTES_MAX]);
        for body in ["first".into(), largest.clone()] {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Subject", "kept.b");
            headers.insert("Nats-Sequence", "9");
            headers.insert("Nats-Time-Stamp", "2020-01-01T00:00:00Z");
            context.publish_with_headers("kept.a", headers, body).await?.await?;
        }
        context.publish("kept.b", "".into()).await?.await?;
        let found = last(&client, "kept.a").await?.expect("it is stored");
        assert_eq!((found.sequence, found.payload), (2, largest.clone()));
        assert!(found.stored_at >= before, "{}", found.stored_at);
        assert_eq!(any_replicas_last_of(&client, "KEPT", "kept.a").await, Ok(Some(largest)));
        let empty = last(&client, "kept.b").await?.expect("it is stored");
        assert_eq!((empty.sequence, empty.payload.len()), (3, 0));
        Ok(())
    }
}
