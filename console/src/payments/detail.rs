//! One payment, as the journal has it: each message with its hash and its events as they are stored, and whether it is parked.
//!
//! A message that cannot be read is shown with its body and the reason, and the payment as it was before it.

use chrono::Utc;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use app::own_payments::parked::Parked;
use events::{PaymentId, StreamId, time::Timestamp};
use journal::{
    Recorded,
    envelope::Chain,
    parking::{Cause, CauseKind, Entry, Record},
};
use projections::PaymentView;

use super::{
    PaymentReads,
    row::{Moment, Row},
};
use crate::{
    error::Error,
    ports::{StoredMessage, StoredStream},
};

/// Most characters that are shown of a body that holds no events.
const BODY_CHARS_MAX: usize = 64 * 1024;
/// Entries of the parking that are shown, the newest.
const HISTORY_MAX: usize = 100;

/// A payment with all that is stored of it.
#[derive(Debug, Serialize)]
pub(crate) struct DetailBody {
    /// As it stands; absent where not even its first commit can be read.
    payment: Option<Row>,
    /// Its commits, in order.
    commits: Vec<CommitBody>,
    /// Whether there are more commits than are shown.
    has_more: bool,
    parked: Option<ParkedBody>,
}

/// A commit.
#[derive(Debug, Serialize)]
struct CommitBody {
    /// How many there are with this one; absent where the message does not say.
    version: Option<u64>,
    sequence: u64,
    stream: String,
    stored_at: Timestamp,
    commit_id: Option<String>,
    correlation: Option<String>,
    causation: Option<String>,
    /// Hash of the one before, by this one's word; of zeros for the first.
    previous: Option<String>,
    hash: String,
    events: Vec<StoredEvent>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// What is stored, where that is no list of events.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// An event as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct StoredEvent {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

/// That it is parked.
#[derive(Debug, Serialize)]
struct ParkedBody {
    since: Timestamp,
    /// In which way it fails; absent where the entry is one that this build does not know.
    kind: Option<CauseKind>,
    text: String,
    attempts: Option<u32>,
    gateway: Option<String>,
    advice: &'static str,
    history: Vec<HistoryEntry>,
}

/// One entry of the history in the parking.
#[derive(Debug, Serialize)]
struct HistoryEntry {
    stored_at: Timestamp,
    #[serde(flatten)]
    says: Says,
}

#[derive(Debug, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
enum Says {
    Parked { cause: Cause, attempts: u32, first_at: Timestamp, last_at: Timestamp, gateway: String },
    Replayed { by: String, at: Timestamp },
    Unknown { reason: String },
}

impl PaymentReads {
    /// A payment with its commits.
    pub(crate) async fn detail(&self, payment_id: &PaymentId) -> Result<DetailBody, Error> {
        let _turn = self.turns.try_acquire().map_err(|_| Error::TooBusy)?;
        let stream_id = StreamId::from(payment_id);
        let parking = async {
            let history = self.parking.history(&stream_id).await;
            history.map_err(|error| Error::Unavailable(error.to_string()))
        };
        let (stored, history) = futures::future::join(self.commits.of(payment_id), parking).await;
        let (stored, history) = (stored?, history?);
        let stored = stored.ok_or(Error::NotFound("there is no payment with this id"))?;
        let (advice, grace) = (self.advice, self.grace);
        // Some MiB are parsed and hashed.
        let body = move || {
            let newest = history.last().filter(|newest| newest.is_parked());
            let payments = newest.and_then(|newest| newest.stream_id.payment()).cloned().into_iter().collect();
            let known = Parked { records: Vec::new(), payments };
            let moment = Moment { now: Utc::now(), grace, parked: Some(&known) };
            let (commits, view) = read(&stored);
            Ok(DetailBody {
                payment: view.map(|view| Row::new(&view, stored.shard, moment)),
                commits,
                has_more: stored.has_more,
                parked: newest.map(|newest| parked_body(newest, &history, advice(&newest.entry))),
            })
        };
        self.lane.run(body).await
    }

    /// The row of a payment of the journal, whether the read models have it or not.
    pub(super) async fn stored_row(&self, payment_id: &PaymentId) -> Result<Option<Row>, Error> {
        let _turn = self.turns.try_acquire().map_err(|_| Error::TooBusy)?;
        let Some(stored) = self.commits.of(payment_id).await? else { return Ok(None) };
        let (parked, grace) = (self.parked_soon().await, self.grace);
        let row = move || {
            let moment = Moment { now: Utc::now(), grace, parked: parked.as_deref() };
            Ok(read(&stored).1.map(|view| Row::new(&view, stored.shard, moment)))
        };
        self.lane.run(row).await
    }
}

/// The commits as they are shown, and the payment as far as they can be read.
fn read(stored: &StoredStream) -> (Vec<CommitBody>, Option<PaymentView>) {
    let (mut chain, mut readable, mut is_broken) = (Chain::default(), Vec::new(), false);
    let commits = stored.messages.iter().map(|message| {
        let opened = open(message, stored.shard, &mut chain);
        let fault = opened.as_ref().err().cloned();
        is_broken |= fault.is_some();
        // What follows on something that cannot be read says nothing of the payment for certain.
        readable.extend(opened.ok().filter(|_| !is_broken));
        commit_body(message, &stored.stream, fault)
    });
    let commits = commits.collect();
    (commits, PaymentView::fold(&readable))
}

/// The commit that a message is, in its place behind those before it.
fn open(message: &StoredMessage, shard: u16, chain: &mut Chain) -> Result<Recorded, String> {
    let envelope = message.envelope.clone()?;
    let opened = envelope.open(shard, message.sequence, &message.body, message.stored_at);
    let recorded = opened.map_err(|error| error.to_string())?;
    chain.follow(&recorded).map_err(|error| error.to_string())?;
    Ok(recorded)
}

fn commit_body(message: &StoredMessage, stream: &str, unreadable: Option<String>) -> CommitBody {
    let envelope = message.envelope.as_ref().ok();
    let events: Option<Vec<StoredEvent>> = serde_json::from_slice(&message.body).ok();
    let body = events.is_none().then(|| {
        let text = String::from_utf8_lossy(&message.body);
        text.chars().take(BODY_CHARS_MAX).collect()
    });
    CommitBody {
        version: envelope.map(|envelope| envelope.version),
        sequence: message.sequence,
        stream: stream.to_owned(),
        stored_at: message.stored_at,
        commit_id: envelope.map(|envelope| envelope.commit_id.to_string()),
        correlation: envelope.map(|envelope| envelope.correlation.clone()),
        causation: envelope.map(|envelope| envelope.causation.clone()),
        previous: envelope.map(|envelope| envelope.prev.to_string()),
        hash: message.hash.to_string(),
        events: events.unwrap_or_default(),
        unreadable,
        body,
    }
}

fn parked_body(newest: &Record, history: &[Record], advice: &'static str) -> ParkedBody {
    let (kind, text, attempts, gateway) = match &newest.entry {
        Entry::Parked(parked) => {
            let gateway = Some(parked.gateway.clone());
            (Some(parked.cause.kind), parked.cause.text.clone(), Some(parked.attempts), gateway)
        }
        Entry::Replayed(_) => (None, String::new(), None, None),
        Entry::Unknown { reason } => (None, reason.clone(), None, None),
    };
    let shown = &history[history.len().saturating_sub(HISTORY_MAX)..];
    let history = shown.iter().map(|record| HistoryEntry {
        stored_at: record.stored_at,
        says: match record.entry.clone() {
            Entry::Parked(parked) => Says::Parked {
                cause: parked.cause,
                attempts: parked.attempts,
                first_at: parked.first_at,
                last_at: parked.last_at,
                gateway: parked.gateway,
            },
            Entry::Replayed(replayed) => Says::Replayed { by: replayed.by, at: replayed.at },
            Entry::Unknown { reason } => Says::Unknown { reason },
        },
    });
    let history = history.collect();
    ParkedBody { since: newest.stored_at, kind, text, attempts, gateway, advice, history }
}

/// What is parked, as a list shows it.
pub(crate) fn parked_entry(record: &Record) -> Value {
    let kind = if record.stream_id.payment().is_some() { "payment" } else { "quote_request" };
    let (cause, text, attempts, gateway) = match &record.entry {
        Entry::Parked(parked) => {
            let cause = parked.cause.kind.to_string();
            (cause, parked.cause.text.as_str(), Some(parked.attempts), Some(parked.gateway.as_str()))
        }
        Entry::Unknown { reason } => ("unknown".to_owned(), reason.as_str(), None, None),
        Entry::Replayed(_) => ("replayed".to_owned(), "", None, None),
    };
    serde_json::json!({
        "id": record.stream_id.as_str(),
        "kind": kind,
        "since": record.stored_at,
        "cause": cause,
        "text": text,
        "attempts": attempts,
        "gateway": gateway,
    })
}
