//! Reads of stored messages: by way of the stream's leader, or by Direct Get from any replica.

use std::{str::FromStr, time::Duration};

use async_nats::{
    Client, HeaderMap, HeaderName, HeaderValue, Message, Request, StatusCode,
    header::{NATS_SEQUENCE, NATS_SUBJECT, NATS_TIME_STAMP},
};
use bytes::Bytes;
use chrono::DateTime;
use data_encoding::BASE64;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use events::time::Timestamp;
use journal::{
    Recorded,
    envelope::{self, StoredMessage},
};

use super::{API, ApiError, Published, api, request};

/// "No message found" in answer to a read.
const NO_MESSAGE_FOUND: u64 = 10037;
/// "Stream not found".
const STREAM_NOT_FOUND: u64 = 10059;

/// Header of the end of a batch: how many messages of the request are behind it.
const NUM_PENDING: &str = "Nats-Num-Pending";
/// Header of a message that was brought back from a copy: when it was stored first, RFC 3339 (ADR 136).
pub(crate) const STORED_AT: &str = "Gw-Stored-At";

/// When a message was stored first: by what it says itself where it was brought back from a copy, otherwise by what the server
/// says.
pub(crate) fn first_stored(headers: &HeaderMap, by_server: Timestamp) -> Timestamp {
    let said = headers.get(STORED_AT).and_then(|value| parse_time(value.as_str()).ok());
    said.map_or(by_server, |said| said.min(by_server))
}

/// Why a read found out nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFault {
    /// No stream of this name answers.
    #[error("the stream is not there")]
    NoStream,
    /// The server cannot be reached, is too slow or says something unexpected.
    #[error("{0}")]
    Other(String),
}

/// A message as it lies in a stream.
#[derive(Debug)]
pub(crate) struct Stored {
    pub subject: String,
    pub sequence: u64,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub stored_at: Timestamp,
}

impl Stored {
    /// Its headers as pairs of name and value, a repeated one in as many pairs.
    pub fn header_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let named = self.headers.iter().map(|(name, values)| (AsRef::<str>::as_ref(name), values));
        named.flat_map(|(name, values)| values.iter().map(move |value| (name, HeaderValue::as_str(value))))
    }

    /// The commit that it is in this shard.
    ///
    /// # Errors
    /// As those of [`envelope::open`].
    pub fn open(&self, shard: u16) -> Result<Recorded, envelope::Error> {
        let Self { subject, sequence, body, stored_at, .. } = self;
        let message = StoredMessage { subject, sequence: *sequence, body, stored_at: *stored_at };
        envelope::open(shard, message, self.header_pairs())
    }
}

/// Whether a message with these headers is the mark that its stream begins in a later epoch (ADR 73).
pub(crate) fn is_moved(headers: &HeaderMap) -> bool {
    envelope::is_moved(headers.get(envelope::TYPE).map(HeaderValue::as_str))
}

/// Which message a read asks for.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Pick<'a> {
    /// The last one of a subject.
    Last {
        #[serde(rename = "last_by_subj")]
        subject: &'a str,
    },
    /// The first one of a subject at or above a sequence.
    Next {
        #[serde(rename = "seq")]
        from: u64,
        #[serde(rename = "next_by_subj")]
        subject: &'a str,
    },
    /// The one at a sequence.
    At { seq: u64 },
}

/// A batched Direct Get (NATS ADR-31).
#[derive(Debug, Serialize)]
pub(crate) struct BatchRequest<'a> {
    /// First sequence.
    pub seq: u64,
    /// Only this subject.
    #[serde(rename = "next_by_subj", skip_serializing_if = "Option::is_none")]
    pub subject: Option<&'a str>,
    /// Most messages to send.
    pub batch: usize,
    /// Most bytes to send.
    pub max_bytes: usize,
}

#[derive(Deserialize)]
struct ReadAnswer {
    message: Option<StoredText>,
    error: Option<ApiError>,
}

/// A message as `STREAM.MSG.GET` answers it; headers and body are in Base64.
#[derive(Deserialize)]
pub(crate) struct StoredText {
    pub(crate) subject: String,
    pub(crate) seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    time: String,
}

/// One message by way of the stream's leader, which sees every acknowledged publish; `None` when there is none.
pub(crate) async fn leader_get(
    client: &Client,
    stream: &str,
    pick: &Pick<'_>,
    timeout: Duration,
) -> Result<Option<Stored>, String> {
    let found = leader_text(client, stream, pick, timeout).await.map_err(|fault| fault.to_string())?;
    found.map(StoredText::decode).transpose()
}

/// The same as it comes, with nothing decoded.
pub(crate) async fn leader_text(
    client: &Client,
    stream: &str,
    pick: &Pick<'_>,
    timeout: Duration,
) -> Result<Option<StoredText>, ReadFault> {
    let answer = api(client, format!("{API}.STREAM.MSG.GET.{stream}"), pick, timeout).await;
    let answer: ReadAnswer = answer.map_err(ReadFault::Other)?;
    match (answer.message, answer.error) {
        (Some(message), None) => Ok(Some(message)),
        (None, Some(error)) if error.err_code == NO_MESSAGE_FOUND => Ok(None),
        (None, Some(error)) if error.err_code == STREAM_NOT_FOUND => Err(ReadFault::NoStream),
        (_, Some(error)) => Err(ReadFault::Other(format!("{} ({})", error.description, error.err_code))),
        (None, None) => Err(ReadFault::Other("answer holds neither a message nor an error".into())),
    }
}

/// What a replica gives in answer to a Direct Get of a batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The messages, in order.
    pub messages: Vec<Stored>,
    /// How many it counts behind these: beyond the limits of the request, or damaged. Of a message that the server cannot read
    /// it says nothing, as if it had never been, and counts it all the same.
    pub pending: u64,
}

/// Messages by Direct Get, from whichever replica answers; it may be behind the leader.
///
/// Complete up to the limits of the request: a batch whose end did not arrive is an error.
pub(crate) async fn direct_batch(
    client: &Client,
    stream: &str,
    request: &BatchRequest<'_>,
    timeout: Duration,
) -> Result<Vec<Stored>, String> {
    direct_batch_counted(client, stream, request, timeout).await.map(|batch| batch.messages)
}

/// The same, with the replica's count of what is behind.
pub(crate) async fn direct_batch_counted(
    client: &Client,
    stream: &str,
    request: &BatchRequest<'_>,
    timeout: Duration,
) -> Result<Batch, String> {
    let body = serde_json::to_vec(request).map_err(|error| error.to_string())?;
    let inbox = client.new_inbox();
    let ask = async {
        let answers = client.subscribe(inbox.clone()).await.map_err(|error| error.to_string())?;
        let subject = format!("{API}.DIRECT.GET.{stream}");
        client.publish_with_reply(subject, inbox, body.into()).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(answers)
    };
    let late = |_| "no answer to a Direct Get in time".to_owned();
    let mut answers = tokio::time::timeout(timeout, ask).await.map_err(late)??;
    let mut messages = Vec::new();
    loop {
        let next = tokio::time::timeout(timeout, answers.next()).await.map_err(late)?;
        let message = next.ok_or("connection was closed")?;
        match message.status {
            None | Some(StatusCode::OK) => messages.push(Stored::from_direct(message)?),
            // End of the batch.
            Some(status) if status.as_u16() == 204 => {
                let pending = message.headers.as_ref().and_then(|headers| headers.get(NUM_PENDING));
                let pending = pending.and_then(|pending| pending.as_str().parse().ok()).unwrap_or_default();
                return Ok(Batch { messages, pending });
            }
            Some(StatusCode::NOT_FOUND) => return Ok(Batch { messages, pending: 0 }),
            Some(StatusCode::NO_RESPONDERS) => return Err("no replica answers Direct Gets".into()),
            Some(status) => return Err(format!("Direct Get was refused with {status}")),
        }
        if messages.len() > request.batch {
            return Err("more messages came than were asked for".into());
        }
    }
}

/// The last message of a subject by Direct Get, from whichever replica answers; it may be behind the leader.
pub(crate) async fn direct_last(
    client: &Client,
    stream: &str,
    subject: &str,
    timeout: Duration,
) -> Result<Option<Stored>, String> {
    match direct_message(client, stream, subject, timeout).await {
        Ok(found) => found.map(Stored::from_direct).transpose(),
        Err(ReadFault::NoStream) => Err("no replica answers Direct Gets".into()),
        Err(ReadFault::Other(reason)) => Err(reason),
    }
}

/// The same as it comes.
async fn direct_message(
    client: &Client,
    stream: &str,
    subject: &str,
    timeout: Duration,
) -> Result<Option<Message>, ReadFault> {
    let ask = format!("{API}.DIRECT.GET.{stream}.{subject}");
    let answer = match request(client, ask, Request::new(), timeout).await {
        Ok(answer) => answer,
        Err(Published::Unclear(reason)) => return Err(ReadFault::Other(reason)),
        Err(_) => return Err(ReadFault::NoStream),
    };
    match answer.status {
        None | Some(StatusCode::OK) => Ok(Some(answer)),
        Some(StatusCode::NOT_FOUND) => Ok(None),
        Some(status) => Err(ReadFault::Other(format!("Direct Get was refused with {status}"))),
    }
}

impl StoredText {
    fn decode(self) -> Result<Stored, String> {
        let headers = parse_headers(&bytes(&self.hdrs)?);
        let (body, stored_at) = (self.body()?, first_stored(&headers, self.stored_at()?));
        Ok(Stored { headers, body, stored_at, subject: self.subject, sequence: self.seq })
    }

    pub(crate) fn body(&self) -> Result<Bytes, String> {
        bytes(&self.data).map(Bytes::from)
    }

    pub(crate) fn stored_at(&self) -> Result<Timestamp, String> {
        parse_time(&self.time)
    }
}

impl Stored {
    fn from_direct(message: Message) -> Result<Self, String> {
        let headers = message.headers.unwrap_or_default();
        let header = |name: HeaderName| {
            let mut values = headers.get_all(name.clone());
            match (values.next(), values.next()) {
                (Some(value), None) => Ok(value.as_str()),
                _ => Err(format!("Direct Get answered without exactly one {name}")),
            }
        };
        let sequence = header(NATS_SEQUENCE)?.parse().map_err(|_| "Nats-Sequence is not a number".to_owned())?;
        let stored_at = first_stored(&headers, parse_time(header(NATS_TIME_STAMP)?)?);
        let subject = header(NATS_SUBJECT)?.to_owned();
        Ok(Self { subject, sequence, stored_at, body: message.payload, headers })
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, String> {
    BASE64.decode(text.as_bytes()).map_err(|error| error.to_string())
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    DateTime::parse_from_rfc3339(text).map(|time| time.to_utc()).map_err(|error| error.to_string())
}

/// Stored header bytes as a map. Lines that are not headers are left out, so that a missing header is reported by name.
fn parse_headers(bytes: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in String::from_utf8_lossy(bytes).split("\r\n").skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if let (Ok(name), Ok(value)) = (HeaderName::from_str(name), HeaderValue::from_str(value.trim())) {
            headers.append(name, value);
        }
    }
    headers
}
