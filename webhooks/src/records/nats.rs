//! Records on JetStream.
//!
//! | stream | subjects | keeps |
//! |---|---|---|
//! | `WEBHOOKS` | `gw.webhook.{webhook}` | everything |
//! | `DELIVERIES` | `gw.delivery.{partition}.{webhook}.{due or done}.{payment}` | everything |
//! | `DELIVERY_STATE` | `gw.delivery-state.>` | the newest of each subject; all of it follows from the others |
//!
//! The first two take nothing more when they are as large as they may be ([`Error::Full`]), so that webhooks never take the room of
//! journals. Messages and outcomes have no age: a queue follows from all of them, and a backup goes on where the last one ended.
//!
//! The server must permit publishing to these subjects and the JetStream API but for changes of streams, and subscribing to
//! `gw.delivery.>`: what the gateways' role has.

use std::time::Duration;

use async_nats::{
    Client, HeaderMap, header,
    jetstream::{
        self,
        stream::{Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream},
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use tokio::time::{Instant, sleep, timeout};

use events::CommitId;
use journal_jetstream::raw::RawReader;

use super::{Error, Record, Records, STATE_PREFIX};

/// Name of the stream of registrations.
pub const WEBHOOKS: &str = "WEBHOOKS";
/// Name of the stream of messages and outcomes.
pub const DELIVERIES: &str = "DELIVERIES";
/// Name of the stream of snapshots and cursors.
pub const DELIVERY_STATE: &str = "DELIVERY_STATE";

/// How long one question to a stream may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How long an append is tried.
const APPEND_MAX: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(100);
/// What a server says where a stream with `discard: new` is at its `max_bytes`.
const FULL: &str = "maximum bytes exceeded";

/// Records in one stream of JetStream. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NatsRecords {
    client: Client,
    context: jetstream::Context,
    stream: Stream,
    name: &'static str,
    reader: RawReader,
}

/// The three streams.
#[derive(Debug, Clone)]
pub struct NatsStreams {
    /// Registrations.
    pub webhooks: NatsRecords,
    /// Messages and outcomes.
    pub deliveries: NatsRecords,
    /// Snapshots and cursors.
    pub state: NatsRecords,
}

impl NatsStreams {
    /// Opens the streams, creating those that are missing with `bytes_max` as the most that each of the first two holds. One that is there
    /// keeps what it has.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while the server cannot be asked, [`Error::Unreadable`] when a stream has another form.
    pub async fn open(client: Client, replicas: usize, bytes_max: u64) -> Result<Self, Error> {
        let kept = |name, subjects: &str| (name, subjects.to_owned(), -1);
        let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        let open = async |(name, subjects, newest): (&'static str, String, i64)| {
            NatsRecords::open(client.clone(), name, subjects, newest, bytes_max, replicas).await
        };
        Ok(Self {
            webhooks: open(kept(WEBHOOKS, "gw.webhook.*")).await?,
            deliveries: open(kept(DELIVERIES, "gw.delivery.>")).await?,
            state: open((DELIVERY_STATE, format!("{STATE_PREFIX}.>"), 1)).await?,
        })
    }
}

impl NatsRecords {
    async fn open(
        client: Client,
        name: &'static str,
        subjects: String,
        newest: i64,
        bytes_max: i64,
        replicas: usize,
    ) -> Result<Self, Error> {
        let context = jetstream::new(client.clone());
        let keeps_all = newest < 0;
        let config = Config {
            name: name.to_owned(),
            subjects: vec![subjects],
            storage: StorageType::File,
            discard: if keeps_all { DiscardPolicy::New } else { DiscardPolicy::Old },
            max_messages_per_subject: newest,
            max_bytes: if keeps_all { bytes_max } else { -1 },
            deny_delete: true,
            deny_purge: true,
            allow_direct: true,
            // A restore fills it by batches.
            allow_atomic_publish: keeps_all,
            num_replicas: replicas,
            ..Config::default()
        };
        let stream = context.get_or_create_stream(config).await.map_err(unavailable)?;
        let found = &stream.cached_info().config;
        // Where it is full it has to refuse what is new, not to drop what is old.
        let drops = keeps_all && found.discard != DiscardPolicy::New || !keeps_all && found.max_bytes > 0;
        let bounded = found.max_messages > 0 || drops || !found.max_age.is_zero();
        if !found.deny_delete || !found.deny_purge || bounded || found.max_messages_per_subject != newest {
            return Err(Error::Unreadable(format!("stream {name} does not keep what it has to keep")));
        }
        let reader = RawReader::new(client.clone(), ANSWER_MAX);
        Ok(Self { client, context, stream, name, reader })
    }

    async fn publish(&self, subject: &str, headers: HeaderMap, body: Bytes) -> Result<u64, String> {
        let sent = self.context.publish_with_headers(subject.to_owned(), headers, body).await;
        let stored = timeout(ANSWER_MAX, sent.map_err(|error| error.to_string())?.into_future()).await;
        let stored = stored.map_err(|_| "no acknowledgement in time".to_owned())?;
        stored.map(|stored| stored.sequence).map_err(|error| error.to_string())
    }

    /// The last message of a subject from the leader, with its id.
    async fn newest(&self, subject: &str) -> Result<Option<(Record, Option<String>)>, Error> {
        let last = timeout(ANSWER_MAX, self.stream.get_last_raw_message_by_subject(subject)).await;
        match last.map_err(|_| unavailable("no answer in time"))? {
            Ok(message) => {
                let stored_at =
                    chrono::DateTime::from_timestamp(message.time.unix_timestamp(), message.time.nanosecond());
                let id = message.headers.get(header::NATS_MESSAGE_ID).map(|id| id.as_str().to_owned());
                let record = Record {
                    sequence: message.sequence,
                    subject: subject.to_owned(),
                    stored_at: stored_at.ok_or_else(|| unavailable("a message without a time"))?,
                    body: message.payload,
                };
                Ok(Some((record, id)))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> Error {
    Error::Unavailable(error.to_string())
}

#[async_trait]
impl Records for NatsRecords {
    async fn append(&self, subject: &str, after: Option<u64>, body: Bytes) -> Result<u64, Error> {
        let id = CommitId::random();
        let deadline = Instant::now() + APPEND_MAX;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(header::NATS_MESSAGE_ID, id.as_str());
            if let Some(after) = after {
                headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, after.to_string().as_str());
            }
            let reason = match self.publish(subject, headers, body.clone()).await {
                Ok(sequence) => return Ok(sequence),
                Err(reason) => reason,
            };
            // Refused, lost, or stored with a lost acknowledgement: what stands there says which.
            match (self.newest(subject).await, after) {
                (Ok(Some((record, stored))), _) if stored.as_deref() == Some(id.as_str()) => return Ok(record.sequence),
                (Ok(Some((record, _))), Some(after)) if record.sequence > after => return Err(Error::Conflict),
                _ if reason.contains(FULL) => return Err(Error::Full),
                // It may be stored with another behind it, so it may come twice; whoever reads knows by what it says.
                _ if Instant::now() + RETRY >= deadline => return Err(Error::Unavailable(reason)),
                _ => sleep(RETRY).await,
            }
        }
    }

    async fn last(&self, subject: &str) -> Result<Option<Record>, Error> {
        Ok(self.newest(subject).await?.map(|(record, _)| record))
    }

    async fn read(&self, filter: &str, from: u64, limit: usize) -> Result<Vec<Record>, Error> {
        let found = self.reader.batch(self.name, from, Some(filter), limit).await.map_err(unavailable)?;
        let record = |message: journal_jetstream::raw::RawMessage| Record {
            sequence: message.sequence,
            subject: message.subject,
            stored_at: message.stored_at,
            body: message.body,
        };
        Ok(found.into_iter().map(record).collect())
    }

    async fn head(&self) -> Result<u64, Error> {
        self.reader.head(self.name).await.map_err(unavailable)
    }

    async fn hints(&self, filter: &str) -> Result<BoxStream<'static, String>, Error> {
        let heard = self.client.subscribe(filter.to_owned()).await.map_err(unavailable)?;
        Ok(heard.map(|message| message.subject.to_string()).boxed())
    }
}
