//! The pause: an operator's word that no gateway accepts anything new.
//!
//! It stands under one key of the JetStream bucket `gw_control`, on disk, so that it outlives every process. Each
//! gateway hears changes as they are published and looks at the bucket twice a second besides; one that cannot look
//! keeps to what it knew last.

mod change;

use std::{error::Error as _, fmt, time::Duration};

use async_nats::{
    Client, HeaderMap,
    connection::State,
    header,
    jetstream::{
        self,
        context::{PublishError, PublishErrorKind},
        stream::{Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream},
    },
};
use bytes::Bytes;
use chrono::SecondsFormat;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use events::time::Timestamp;
use journal::operator_acts::{REASON_CHARS_MAX, printable};

pub use self::change::ChangeError;
use self::change::{CHANGE_MAX, Key, Put, Standing};

/// Bucket of what operators tell all gateways.
pub const BUCKET: &str = "gw_control";
/// Key of the pause, as a subject.
const PAUSE_SUBJECT: &str = "$KV.gw_control.pause";
pub(super) const STREAM: &str = "KV_gw_control";
/// How often the bucket is read besides being listened to.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long one look may take.
pub(super) const LOOK_MAX: Duration = Duration::from_secs(2);
/// How long storing waits for its acknowledgement.
const STORE_MAX: Duration = Duration::from_secs(2);
/// How often a lost connection is looked at again.
const CONNECTION_POLL: Duration = Duration::from_millis(20);
/// Changes that are kept for auditors.
const HISTORY: i64 = 64;

/// What an operator said last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// Whether nothing new is accepted.
    pub paused: bool,
    /// Why, for other operators; never shown to callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it was said.
    pub since: Timestamp,
}

/// In words, for other operators.
impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, since) = (if self.paused { "paused" } else { "accepting" }, self.since);
        write!(f, "{state} since {}", since.to_rfc3339_opts(SecondsFormat::Secs, true))?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {}", printable(reason)))
    }
}

/// The bucket cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// NATS does not answer, or refuses.
    #[error("bucket {BUCKET}: {0}")]
    Unavailable(String),
    /// What stands in the bucket is not this program's.
    #[error("bucket {BUCKET} holds no state of the pause: {0}")]
    Unreadable(String),
    /// The reason is too long.
    #[error("reason: must have at most {REASON_CHARS_MAX} characters")]
    Reason,
    /// Somebody else changed it meanwhile.
    #[error("it was changed by somebody else meanwhile")]
    Changed,
}

pub(super) fn unavailable(error: impl std::fmt::Display) -> Error {
    Error::Unavailable(error.to_string())
}

/// The bucket, for those who read and change it.
#[derive(Debug, Clone)]
pub struct ControlBucket {
    client: Client,
    context: jetstream::Context,
    stream: Stream,
}

impl ControlBucket {
    /// Opens the bucket, creating it where it is missing.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn open(client: Client, replicas: usize) -> Result<Self, Error> {
        let context = jetstream::new(client.clone());
        let stream = context.get_or_create_stream(config(replicas)).await.map_err(unavailable)?;
        Ok(Self { client, context, stream })
    }

    /// What was said last; `None` when nothing ever was. Asks the stream's leader, who knows every change.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn read(&self) -> Result<Option<Control>, Error> {
        self.last().await?.control
    }

    /// Pauses all gateways, whatever was said before.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub async fn pause(&self, reason: Option<String>) -> Result<Control, ChangeError> {
        change::pause(self, reason, CHANGE_MAX).await
    }

    /// Lets all gateways accept again where the pause is the one that was said at `shown`; what holds then. Where nothing
    /// is paused nothing is changed.
    ///
    /// # Errors
    /// [`ChangeError`]; [`ChangeError::Changed`] with another pause, which goes on.
    pub async fn resume(&self, shown: Option<Timestamp>) -> Result<Option<Control>, ChangeError> {
        change::resume(self, shown, CHANGE_MAX).await
    }

    /// Stores under a key of the bucket where the key's last change is that of sequence `before`, 0 for none; the new
    /// sequence.
    pub(super) async fn replace(&self, subject: &'static str, before: u64, body: Vec<u8>) -> Result<u64, Error> {
        match self.store(subject, before, body.into()).await {
            Put::Stored(sequence) => Ok(sequence),
            Put::Passed => Err(Error::Changed),
            Put::Refused(reason) | Put::Unclear(reason) => Err(Error::Unavailable(reason)),
        }
    }

    async fn store(&self, subject: &'static str, before: u64, body: Bytes) -> Put {
        // Without a connection it would wait in the client, and be stored long after everybody has given up.
        let until = Instant::now() + STORE_MAX;
        while self.client.connection_state() != State::Connected {
            if Instant::now() >= until {
                return Put::Refused("no connection".to_owned());
            }
            sleep(CONNECTION_POLL).await;
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, before.to_string());
        let storing = async { self.context.publish_with_headers(subject, headers, body).await?.await };
        match timeout(STORE_MAX, storing).await {
            Ok(Ok(stored)) => Put::Stored(stored.sequence),
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => Put::Passed,
            Ok(Err(error)) if is_refusal(&error) => Put::Refused(in_words(&error)),
            Ok(Err(error)) => Put::Unclear(in_words(&error)),
            Err(_) => Put::Unclear("no acknowledgement in time".to_owned()),
        }
    }
}

/// Whether the server said that it does not store it, or nobody was there who could.
fn is_refusal(error: &PublishError) -> bool {
    let said = error.source().is_some_and(|source| source.is::<jetstream::Error>());
    let unsent = [PublishErrorKind::StreamNotFound, PublishErrorKind::MaxPayloadExceeded];
    said || unsent.contains(&error.kind())
}

fn in_words(error: &PublishError) -> String {
    match error.source() {
        Some(source) => format!("{}: {source}", error.kind()),
        None => error.to_string(),
    }
}

impl Key for ControlBucket {
    async fn last(&self) -> Result<Standing, Error> {
        let last = timeout(LOOK_MAX, self.stream.get_last_raw_message_by_subject(PAUSE_SUBJECT));
        match last.await.map_err(|_| unavailable("no answer in time"))? {
            Ok(message) => {
                let control = parse(&message.headers, &message.payload);
                Ok(Standing { sequence: message.sequence, control })
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                Ok(Standing { sequence: 0, control: Ok(None) })
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn next(&self, after: u64) -> Result<Option<Bytes>, Error> {
        let next = timeout(LOOK_MAX, self.stream.get_first_raw_message_by_subject(PAUSE_SUBJECT, after + 1));
        match next.await.map_err(|_| unavailable("no answer in time"))? {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    async fn put(&self, before: u64, body: Bytes) -> Put {
        self.store(PAUSE_SUBJECT, before, body).await
    }
}

/// Whether this gateway accepts anything new. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PauseState(watch::Receiver<bool>);

impl PauseState {
    /// Never paused, where there is no bucket.
    pub fn never() -> Self {
        // A receiver keeps the last value when its sender is gone.
        Self::follow(&watch::Sender::new(false))
    }

    /// As `switch` says.
    pub fn follow(switch: &watch::Sender<bool>) -> Self {
        Self(switch.subscribe())
    }

    /// Whether nothing new is accepted.
    pub fn is_paused(&self) -> bool {
        *self.0.borrow()
    }
}

/// Keeps a [`PauseState`] current.
#[derive(Debug)]
pub struct PauseFollower {
    bucket: ControlBucket,
    state: watch::Sender<bool>,
}

impl PauseFollower {
    /// A follower that knows the state already, so that a gateway never serves in ignorance of a pause.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn start(bucket: ControlBucket) -> Result<Self, Error> {
        let paused = bucket.read().await?.is_some_and(|control| control.paused);
        if paused {
            tracing::warn!("PAUSED: nothing new is accepted");
        }
        Ok(Self { bucket, state: watch::Sender::new(paused) })
    }

    /// The state, as it will be followed.
    pub fn state(&self) -> PauseState {
        PauseState::follow(&self.state)
    }

    /// Follows the bucket until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&self) {
        let mut heard = None;
        let mut blind = false;
        loop {
            if heard.is_none() {
                heard = self.bucket.client.subscribe(PAUSE_SUBJECT).await.ok();
            }
            // What is heard is only a reason to look: a message may be one that was never stored.
            match &mut heard {
                Some(messages) => match timeout(LOOK_EVERY, messages.next()).await {
                    Ok(Some(_)) | Err(_) => {}
                    Ok(None) => heard = None,
                },
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
            match self.bucket.read().await {
                Ok(control) => {
                    blind = false;
                    self.note(control);
                }
                Err(error) if !blind => {
                    blind = true;
                    let paused = *self.state.borrow();
                    tracing::warn!(%error, paused, "the pause cannot be read; what was known last holds");
                }
                Err(_) => {}
            }
        }
    }

    fn note(&self, control: Option<Control>) {
        let paused = control.as_ref().is_some_and(|control| control.paused);
        let changed = self.state.send_if_modified(|current| std::mem::replace(current, paused) != paused);
        match (changed, paused) {
            (true, true) => {
                let reason = control.and_then(|control| control.reason).unwrap_or_default();
                tracing::warn!(reason, "PAUSED: nothing new is accepted");
            }
            (true, false) => tracing::warn!("RESUMED: new payments are accepted"),
            (false, _) => {}
        }
    }
}

fn parse(headers: &HeaderMap, payload: &[u8]) -> Result<Option<Control>, Error> {
    // A key that was deleted, with a tool for buckets, says as much as one that never was.
    if headers.get("KV-Operation").is_some() {
        return Ok(None);
    }
    serde_json::from_slice(payload).map(Some).map_err(|error| Error::Unreadable(error.to_string()))
}

/// A key-value bucket, except that nothing can be taken out of it.
fn config(replicas: usize) -> Config {
    Config {
        name: STREAM.to_owned(),
        description: Some("what operators tell all gateways".to_owned()),
        subjects: vec![format!("$KV.{BUCKET}.*")],
        storage: StorageType::File,
        max_messages_per_subject: HISTORY,
        discard: DiscardPolicy::New,
        allow_direct: true,
        deny_delete: true,
        allow_rollup: false,
        num_replicas: replicas,
        ..Default::default()
    }
}
