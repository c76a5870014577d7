//! JetStream requests of the journal and the ledger, with a distinct result for every outcome.
//!
//! `async-nats` has calls for most of this, but they fold outcomes together that must stay apart here (of the refusals
//! of an expected sequence it knows only one, and a batched Direct Get it does not have), so requests are made on the
//! plain client.

pub(crate) mod consumer;
mod streams;

use std::{collections::HashMap, str::FromStr, time::Duration};

use async_nats::{
    Client, HeaderMap, HeaderName, HeaderValue, Message, Request, StatusCode,
    client::RequestErrorKind,
    connection::State,
    header::{NATS_SEQUENCE, NATS_SUBJECT, NATS_TIME_STAMP},
    jetstream::ErrorCode,
};
use bytes::Bytes;
use chrono::DateTime;
use data_encoding::BASE64;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};

pub use self::streams::ConnectError;
pub(crate) use self::streams::{StreamPlan, ensure_stream, stream_config};
use events::time::Timestamp;
pub(crate) use journal::envelope::{EXPECTED_SEQUENCE, MESSAGE_ID};
use journal::{
    Recorded,
    envelope::{self, StoredMessage},
};

/// Prefix of the JetStream API's subjects.
const API: &str = "$JS.API";
/// Headers of an atomic batch (NATS ADR-50): which one, the message's place in it from 1 on, and its end.
const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
/// The stream takes no batches.
const BATCHES_DISABLED: u64 = 10174;
/// Refusals of a whole batch: incomplete, too large, and with a message whose id the server remembers.
const BATCH_REFUSED: [u64; 3] = [10176, 10199, 10201];
/// "No message found" in answer to a read.
const NO_MESSAGE_FOUND: u64 = 10037;
/// How often a lost connection is looked at again.
const CONNECTION_POLL: Duration = Duration::from_millis(20);

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

/// Headers as the client wants them.
pub fn header_map(pairs: Vec<(&'static str, String)>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(name, value);
    }
    headers
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
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
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

#[derive(Deserialize)]
struct ReadAnswer {
    message: Option<StoredText>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct StoredText {
    subject: String,
    seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    time: String,
}

#[derive(Deserialize)]
struct InfoAnswer {
    state: Option<InfoState>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct NamesAnswer {
    #[serde(default)]
    total: usize,
    streams: Option<Vec<String>>,
    error: Option<ApiError>,
}

#[derive(Deserialize)]
struct InfoState {
    last_seq: u64,
}

#[derive(Deserialize)]
struct DescriptionAnswer {
    #[serde(flatten)]
    description: Option<Description>,
    error: Option<ApiError>,
}

/// The description of a stream, from its leader.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Description {
    pub config: DescribedConfig,
    pub created: Timestamp,
    pub state: DescribedState,
}

/// The part of a stream's settings by which it says what it is for.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DescribedConfig {
    #[serde(default)]
    pub metadata: HashMap<String, String>,
    #[serde(default)]
    pub sealed: bool,
}

/// How much is in a stream.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DescribedState {
    pub messages: u64,
    #[serde(default)]
    pub bytes: u64,
    #[serde(default)]
    pub num_subjects: u64,
}

/// Whether the client has a connection now. Without one a publish waits in the client and is sent on reconnection, long
/// after whoever asked for it has given up.
pub(crate) fn connected(client: &Client) -> bool {
    client.connection_state() == State::Connected
}

/// Waits for a connection until `deadline`; whether there is one.
pub(crate) async fn connected_by(client: &Client, deadline: Instant) -> bool {
    while !connected(client) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(CONNECTION_POLL).await;
    }
    true
}

/// Headers of a publish that is conditional on the last sequence of its subject.
pub(crate) fn conditional(message_id: &str, expected: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(MESSAGE_ID, message_id);
    headers.insert(EXPECTED_SEQUENCE, HeaderValue::from(expected));
    headers
}

async fn request(client: &Client, subject: String, request: Request, timeout: Duration) -> Result<Message, Published> {
    let request = request.timeout(Some(timeout));
    // The client's own time-out does not cover the time a request waits for room in its queue.
    match tokio::time::timeout(timeout, client.send_request(subject, request)).await {
        Ok(Ok(message)) => Ok(message),
        Ok(Err(error)) => Err(match error.kind() {
            RequestErrorKind::NoResponders => Published::NotStored("no stream takes the subject now".into()),
            RequestErrorKind::InvalidSubject => Published::NotStored(error.to_string()),
            RequestErrorKind::MaxPayloadExceeded => Published::TooLarge(error.to_string()),
            RequestErrorKind::TimedOut | RequestErrorKind::Other => Published::Unclear(error.to_string()),
        }),
        Err(_) => Err(Published::Unclear("no acknowledgement in time".into())),
    }
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

/// A message about to be published.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
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

/// Publishes messages into one stream as an atomic batch (NATS ADR-50) and waits for the acknowledgement.
pub(crate) async fn publish_batch(client: &Client, messages: &[&Outgoing], timeout: Duration) -> PublishedBatch {
    let Some((last, others)) = messages.split_last() else {
        return PublishedBatch::Refused("a batch without messages".into());
    };
    let id = client.new_inbox();
    let id = id.rsplit('.').next().unwrap_or_default();
    let headers = |message: &Outgoing, number: usize| {
        let mut headers = message.headers.clone();
        headers.insert(BATCH_ID, id);
        headers.insert(BATCH_SEQUENCE, HeaderValue::from(number as u64));
        headers
    };
    let others_sent = async {
        for (message, number) in others.iter().zip(1..) {
            let (subject, body) = (message.subject.clone(), message.body.clone());
            client.publish_with_headers(subject, headers(message, number), body).await?;
        }
        Ok::<_, async_nats::PublishError>(())
    };
    match tokio::time::timeout(timeout, others_sent).await {
        Ok(Ok(())) => {}
        // A batch that is not committed is never stored.
        Ok(Err(error)) => return PublishedBatch::Refused(error.to_string()),
        Err(_) => return PublishedBatch::Refused("no room in the connection's queue in time".into()),
    }
    let mut headers = headers(last, messages.len());
    headers.insert(BATCH_COMMIT, "1");
    let message = Request::new().headers(headers).payload(last.body.clone());
    let answer = match request(client, last.subject.clone(), message, timeout).await {
        Ok(answer) => answer,
        Err(Published::Unclear(reason)) => return PublishedBatch::Unclear(reason),
        Err(Published::NotStored(reason) | Published::TooLarge(reason)) => return PublishedBatch::Refused(reason),
        Err(other) => return PublishedBatch::Unclear(format!("{other:?}")),
    };
    let answer: PublishAnswer = match serde_json::from_slice(&answer.payload) {
        Ok(answer) => answer,
        Err(error) => return PublishedBatch::Unclear(format!("acknowledgement cannot be read: {error}")),
    };
    let count = messages.len() as u64;
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

async fn api<T: for<'de> Deserialize<'de>>(
    client: &Client,
    subject: String,
    body: &impl Serialize,
    timeout: Duration,
) -> Result<T, String> {
    let body = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    let answer = match request(client, subject, Request::new().payload(body.into()), timeout).await {
        Ok(answer) => answer,
        Err(Published::NotStored(_)) => return Err("JetStream does not answer".into()),
        Err(Published::TooLarge(reason) | Published::Unclear(reason)) => return Err(reason),
        Err(other) => return Err(format!("{other:?}")),
    };
    serde_json::from_slice(&answer.payload).map_err(|error| format!("answer cannot be read: {error}"))
}

/// One message by way of the stream's leader, which sees every acknowledged publish; `None` when there is none.
pub(crate) async fn leader_get(
    client: &Client,
    stream: &str,
    pick: &Pick<'_>,
    timeout: Duration,
) -> Result<Option<Stored>, String> {
    let answer: ReadAnswer = api(client, format!("{API}.STREAM.MSG.GET.{stream}"), pick, timeout).await?;
    match (answer.message, answer.error) {
        (Some(message), None) => message.decode().map(Some),
        (None, Some(error)) if error.err_code == NO_MESSAGE_FOUND => Ok(None),
        (_, Some(error)) => Err(format!("{} ({})", error.description, error.err_code)),
        (None, None) => Err("answer holds neither a message nor an error".into()),
    }
}

/// The names of all streams.
pub(crate) async fn stream_names(client: &Client, timeout: Duration) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    loop {
        let page = serde_json::json!({"offset": names.len()});
        let answer: NamesAnswer = api(client, format!("{API}.STREAM.NAMES"), &page, timeout).await?;
        if let Some(error) = answer.error {
            return Err(format!("{} ({})", error.description, error.err_code));
        }
        let page = answer.streams.unwrap_or_default();
        if page.is_empty() {
            return Ok(names);
        }
        names.extend(page);
        if names.len() >= answer.total {
            return Ok(names);
        }
    }
}

/// Whether a stream takes the messages of `subject`. In a cluster a question about a stream that is not there is answered
/// late on purpose; this one is not.
pub(crate) async fn takes(client: &Client, subject: &str, timeout: Duration) -> Result<bool, String> {
    let ask = serde_json::json!({"subject": subject});
    let answer: NamesAnswer = api(client, format!("{API}.STREAM.NAMES"), &ask, timeout).await?;
    match answer.error {
        Some(error) => Err(format!("{} ({})", error.description, error.err_code)),
        None => Ok(answer.streams.is_some_and(|names| !names.is_empty())),
    }
}

/// Seals a stream: the server takes nothing into it any more, and nothing undoes that. All other settings stay as they
/// are, also those that this client does not know.
pub(crate) async fn seal(client: &Client, stream: &str, timeout: Duration) -> Result<(), String> {
    let config = |mut answer: Value| match answer["error"].take() {
        Value::Null => Ok(answer["config"].take()),
        error => Err(format!("{} ({})", error["description"].as_str().unwrap_or_default(), error["err_code"])),
    };
    let ask = serde_json::json!({});
    let mut wanted = config(api(client, format!("{API}.STREAM.INFO.{stream}"), &ask, timeout).await?)?;
    wanted["sealed"] = true.into();
    let found = config(api(client, format!("{API}.STREAM.UPDATE.{stream}"), &wanted, timeout).await?)?;
    if found["sealed"] == true { Ok(()) } else { Err("the server answers with a stream that is not sealed".into()) }
}

/// The last sequence of a stream, from its leader.
pub(crate) async fn last_sequence(client: &Client, stream: &str, timeout: Duration) -> Result<u64, String> {
    let answer: InfoAnswer =
        api(client, format!("{API}.STREAM.INFO.{stream}"), &serde_json::json!({}), timeout).await?;
    match (answer.state, answer.error) {
        (_, Some(error)) => Err(format!("{} ({})", error.description, error.err_code)),
        (Some(state), None) => Ok(state.last_seq),
        (None, None) => Err("answer holds neither a state nor an error".into()),
    }
}

/// The description of a stream, from its leader; `None` when there is no such stream.
pub(crate) async fn description(
    client: &Client,
    stream: &str,
    timeout: Duration,
) -> Result<Option<Description>, String> {
    let subject = format!("{API}.STREAM.INFO.{stream}");
    let answer: DescriptionAnswer = api(client, subject, &serde_json::json!({}), timeout).await?;
    match (answer.description, answer.error) {
        (_, Some(error)) if ErrorCode(error.err_code) == ErrorCode::STREAM_NOT_FOUND => Ok(None),
        (_, Some(error)) => Err(format!("{} ({})", error.description, error.err_code)),
        (Some(description), None) => Ok(Some(description)),
        (None, None) => Err("answer holds neither a stream nor an error".into()),
    }
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
            Some(status) if status.as_u16() == 204 => return Ok(messages),
            Some(StatusCode::NOT_FOUND) => return Ok(messages),
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
    let ask = format!("{API}.DIRECT.GET.{stream}.{subject}");
    let answer = match request(client, ask, Request::new(), timeout).await {
        Ok(answer) => answer,
        Err(Published::Unclear(reason)) => return Err(reason),
        Err(_) => return Err("no replica answers Direct Gets".into()),
    };
    match answer.status {
        None | Some(StatusCode::OK) => Stored::from_direct(answer).map(Some),
        Some(StatusCode::NOT_FOUND) => Ok(None),
        Some(status) => Err(format!("Direct Get was refused with {status}")),
    }
}

impl StoredText {
    fn decode(self) -> Result<Stored, String> {
        let bytes = |text: &str| BASE64.decode(text.as_bytes()).map_err(|error| error.to_string());
        Ok(Stored {
            headers: parse_headers(&bytes(&self.hdrs)?),
            body: bytes(&self.data)?.into(),
            stored_at: parse_time(&self.time)?,
            subject: self.subject,
            sequence: self.seq,
        })
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
        let sequence = header(NATS_SEQUENCE)?.parse().map_err(|_| "Nats-Sequence is no number".to_owned())?;
        let stored_at = parse_time(header(NATS_TIME_STAMP)?)?;
        let subject = header(NATS_SUBJECT)?.to_owned();
        Ok(Self { subject, sequence, stored_at, body: message.payload, headers })
    }
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
