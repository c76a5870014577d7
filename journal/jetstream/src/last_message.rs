//! Last message under a subject, of streams that hold no commits.
//!
//! What an untrusted client has written is read by [`by_leader`] and [`by_leader_until`] alone, through `STREAM.MSG.GET`. A Direct Get answers with the
//! stored message's own headers and the server's behind them: a client that writes `Nats-Subject`, `Nats-Time-Stamp` or a status
//! into its message says what looks like the server's word (ADR 119).

use std::time::Duration;

use async_nats::Client;
use bytes::Bytes;

use events::time::Timestamp;

use crate::requests::{self, Pick, ReadFault, StoredText};

/// A message in a stream, by the server's word about it. Its headers are whoever's who wrote it, and nobody reads them.
#[derive(Debug, Clone)]
pub struct LastMessage {
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

impl From<ReadFault> for Error {
    fn from(fault: ReadFault) -> Self {
        match fault {
            ReadFault::NoStream => Self::Missing,
            ReadFault::Other(reason) => Self::Unavailable(reason),
        }
    }
}

/// The last message under `subject` in `stream`, as the stream's leader has it.
///
/// Whatever its writer put into it, the message is found as it is: its number and its time stand beside it in the answer.
///
/// # Errors
/// See [`Error`]. None is of the message's making.
pub async fn by_leader(
    client: &Client,
    stream: &str,
    subject: &str,
    timeout: Duration,
) -> Result<Option<LastMessage>, Error> {
    let found = requests::leader_text(client, stream, &Pick::Last { subject }, timeout).await?;
    found.map(|found| message(found, subject)).transpose()
}

/// The last message under `subject` that `stream` stored up to `by`, as the stream's leader has it; where it stored all of them
/// later, the last of all.
///
/// What came later is read only where something did, one message at a time: a stream from which this is read bounds how many
/// there are under a subject.
///
/// # Errors
/// See [`Error`]. None is of a message's making.
pub async fn by_leader_until(
    client: &Client,
    stream: &str,
    subject: &str,
    by: Timestamp,
    timeout: Duration,
) -> Result<Option<LastMessage>, Error> {
    let Some(last) = by_leader(client, stream, subject, timeout).await? else { return Ok(None) };
    if last.stored_at <= by {
        return Ok(Some(last));
    }
    let (mut in_time, mut from) = (None, 1);
    while from < last.sequence {
        let pick = Pick::Next { from, subject };
        let Some(found) = requests::leader_text(client, stream, &pick, timeout).await? else { break };
        let found = message(found, subject)?;
        from = found.sequence.saturating_add(1);
        if found.stored_at <= by {
            in_time = Some(found);
        }
    }
    Ok(in_time.or(Some(last)))
}

/// What the server answered when it was asked for a message under `subject`.
fn message(found: StoredText, subject: &str) -> Result<LastMessage, Error> {
    if found.subject != subject {
        return Err(Error::Unavailable(format!("asked for {subject}, the server answers with {}", found.subject)));
    }
    let payload = found.body().map_err(Error::Unavailable)?;
    let stored_at = found.stored_at().map_err(Error::Unavailable)?;
    Ok(LastMessage { sequence: found.seq, stored_at, payload })
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

    const TIMEOUT: Duration = Duration::from_secs(10);

    async fn last(client: &Client, subject: &str) -> Result<Option<LastMessage>, Error> {
        by_leader(client, "KEPT", subject, TIMEOUT).await
    }

    #[tokio::test]
    async fn the_last_is_found_as_the_server_has_it_whatever_its_headers_say() -> anyhow::Result<()> {
        let server = NatsServer::open().await?;
        let client = async_nats::connect(server.url()).await?;
        assert_eq!(last(&client, "kept.a").await.unwrap_err(), Error::Missing);

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

        let before = Utc::now();
        let largest = Bytes::from(vec![0xff; 64 * 1024]);
        for body in ["first".into(), largest.clone()] {
            let mut headers = HeaderMap::new();
            headers.insert("Nats-Subject", "kept.b");
            headers.insert("Nats-Sequence", "9");
            headers.insert("Nats-Time-Stamp", "2020-01-01T00:00:00Z");
            context.publish_with_headers("kept.a", headers, body).await?.await?;
        }
        context.publish("kept.b", "".into()).await?.await?;
        let found = last(&client, "kept.a").await?.expect("it is stored");
        assert_eq!((found.sequence, found.payload), (2, largest));
        assert!(found.stored_at >= before, "{}", found.stored_at);
        let empty = last(&client, "kept.b").await?.expect("it is stored");
        assert_eq!((empty.sequence, empty.payload.len()), (3, 0));
        Ok(())
    }
}
