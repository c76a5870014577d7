//! The parking, a dead-letter store: payments and batches that keep failing are taken out of work with their cause until an
//! operator replays them.
//!
//! What is parked is a stream that cannot be driven on: it cannot be read, or driving it fails in a way that trying
//! again does not mend. Nothing of the payment changes by it; its own stream stays as it is. Each stream has a history
//! of its own in the parking, of [`Entry`]s that are only ever added, and the newest says whether it is parked. So a
//! parking outlives every process, and auditors see who replayed what and when.
//!
//! [`Parking`] has two implementations with the same semantics, [`memory::MemoryParking`] and that of the crate `journal-jetstream`,
//! which pass one conformance suite.

pub mod conformance;
pub mod memory;

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use events::{Epoch, StreamId, time::Timestamp};

/// Most characters of a cause's text and of an operator's name; longer ones are cut.
pub const TEXT_CHARS_MAX: usize = 1000;

/// In which way a stream cannot be driven on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// A message of it cannot be read as events.
    Unreadable,
    /// It holds events that cannot follow each other.
    Illegal,
    /// The journal will never take what was decided.
    Unacceptable,
    /// The code that drives it panics.
    Panicked,
}

impl fmt::Display for CauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "unreadable",
            Self::Illegal => "illegal",
            Self::Unacceptable => "unacceptable",
            Self::Panicked => "panicked",
        })
    }
}

/// Why a stream was parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// In which way it fails.
    pub kind: CauseKind,
    /// The cause, in words.
    pub text: String,
    /// Shard of the message at fault, where one is known. Causes that were stored while there was one epoch do not name
    /// it; what they speak of lies in the stream's shard of that epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// Stream sequence of that message in its shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

impl Cause {
    /// A cause whose text is cut to [`TEXT_CHARS_MAX`], with shard and sequence of the message at fault where one is known.
    pub fn new(kind: CauseKind, text: &str, at_fault: Option<(u16, u64)>) -> Self {
        let (shard, sequence) = at_fault.unzip();
        Self { kind, text: cut(text), shard, sequence }
    }
}

/// A stream was taken out of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Why.
    pub cause: Cause,
    /// How often in a row it was tried.
    pub attempts: u32,
    /// When the first of them failed.
    pub first_at: Timestamp,
    /// When the last of them failed.
    pub last_at: Timestamp,
    /// The gateway that tried, by the name under which it owns shards.
    pub gateway: String,
}

/// An operator wants the stream to be driven again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replayed {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

impl Replayed {
    /// A replay in the name of `by`, which is cut to [`TEXT_CHARS_MAX`].
    pub fn new(by: &str, at: Timestamp) -> Self {
        Self { by: cut(by), at }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// One step of a stream's history in the parking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// It was parked.
    Parked(Parked),
    /// It was replayed.
    Replayed(Replayed),
    /// What is stored is not an entry that this build knows. It counts as parked: what nobody understands is left alone.
    Unknown {
        /// The defect.
        reason: String,
    },
}

/// An entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The payment or batch.
    pub stream_id: StreamId,
    /// Sequence of the entry in the parking; rises with every entry.
    pub sequence: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// What it says.
    pub entry: Entry,
}

impl Record {
    /// Whether the stream is parked when this is its newest entry.
    pub fn is_parked(&self) -> bool {
        match self.entry {
            Entry::Parked(_) | Entry::Unknown { .. } => true,
            Entry::Replayed(_) => false,
        }
    }
}

/// Why the parking did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It cannot be reached, or did not answer in time. Asking again is safe.
    #[error("parking is unavailable: {0}")]
    Unavailable(String),
    /// It will never take this entry.
    #[error("parking refuses the entry: {0}")]
    Refused(String),
    /// The stream is not parked, so there is nothing to replay.
    #[error("{0} is not parked")]
    NotParked(StreamId),
}

/// The dead-letter store: streams that keep failing, out of the way of the rest.
#[async_trait]
pub trait Parking: Send + Sync {
    /// Parks a stream whose newest entry, as far as the caller knows, is the one at sequence `after` (0 for none), and
    /// returns its newest entry. That is another than this one when somebody else was faster: when it says that the stream
    /// is parked, it is; when it was replayed meanwhile, the attempts that led here count no more.
    ///
    /// # Errors
    /// [`Error::Unavailable`] or [`Error::Refused`]. Asking again with the same `after` never parks twice.
    async fn park(&self, stream_id: &StreamId, after: u64, parked: &Parked) -> Result<Record, Error>;

    /// Lets the owner of the shard drive a parked stream again.
    ///
    /// # Errors
    /// [`Error::NotParked`], also when another replay was first, or [`Error::Unavailable`].
    async fn replay(&self, stream_id: &StreamId, replayed: &Replayed) -> Result<Record, Error>;

    /// Every entry of a stream, in order; empty when it was never parked.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn history(&self, stream_id: &StreamId) -> Result<Vec<Record>, Error>;

    /// The newest entry of every stream that is parked, in the order in which they were parked.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    async fn parked(&self) -> Result<Vec<Record>, Error>;

    /// The entries of all streams that lie in `shard` of `epoch` if they began there, from the first one on, and then as
    /// they come. Where a stream did begin the parking does not know, so some may lie in another epoch's shard: who
    /// follows has to tell them apart.
    fn follow(&self, epoch: Epoch, shard: u16) -> Box<dyn ParkingPartition>;
}

/// The entries of the streams of one shard, in order.
#[async_trait]
pub trait ParkingPartition: Send {
    /// At first all entries that were acknowledged before the call, maybe none; then the next ones, at least one. A call
    /// that is dropped before it has answered loses nothing.
    ///
    /// # Errors
    /// [`Error::Unavailable`]; call again.
    async fn next(&mut self) -> Result<Vec<Record>, Error>;
}

/// The stored form of an entry.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
enum Stored {
    Parked {
        stream_id: String,
        #[serde(flatten)]
        parked: Parked,
    },
    Replayed {
        stream_id: String,
        #[serde(flatten)]
        replayed: Replayed,
    },
}

impl Entry {
    /// The entry as it is stored: a JSON object whose member `entry` is `parked` or `replayed`.
    ///
    /// # Errors
    /// [`Error::Refused`] for [`Entry::Unknown`], which is never stored.
    pub fn encode(&self, stream_id: &StreamId) -> Result<Vec<u8>, Error> {
        let stream_id = stream_id.to_string();
        let stored = match self {
            Self::Parked(parked) => Stored::Parked { stream_id, parked: parked.clone() },
            Self::Replayed(replayed) => Stored::Replayed { stream_id, replayed: replayed.clone() },
            Self::Unknown { reason } => return Err(Error::Refused(format!("no entry to be stored: {reason}"))),
        };
        serde_json::to_vec(&stored).map_err(|error| Error::Refused(error.to_string()))
    }

    /// The entry that lies in the subject of a stream, [`Entry::Unknown`] when it cannot be read.
    pub fn decode(stream_id: &StreamId, body: &[u8]) -> Self {
        let (named, entry) = match serde_json::from_slice(body) {
            Ok(Stored::Parked { stream_id, parked }) => (stream_id, Self::Parked(parked)),
            Ok(Stored::Replayed { stream_id, replayed }) => (stream_id, Self::Replayed(replayed)),
            Err(error) => return Self::Unknown { reason: error.to_string() },
        };
        if named == stream_id.as_str() {
            entry
        } else {
            Self::Unknown { reason: format!("it names another stream, {}", cut(&named)) }
        }
    }
}

/// Of these records in order, the newest of each stream that is parked by it, in order.
pub fn still_parked(records: Vec<Record>) -> Vec<Record> {
    let mut newest = std::collections::BTreeMap::new();
    for record in records {
        newest.insert(record.stream_id.clone(), record);
    }
    let mut parked: Vec<Record> = newest.into_values().filter(Record::is_parked).collect();
    parked.sort_by_key(|record| record.sequence);
    parked
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::PaymentId;

    fn stream_id() -> StreamId {
        PaymentId::derive("a", "b").into()
    }

    fn parked() -> Entry {
        let at = "2026-01-02T03:04:05Z".parse().unwrap();
        let cause = Cause::new(CauseKind::Unreadable, "unknown event X", Some((9, 7)));
        Entry::Parked(Parked { cause, attempts: 5, first_at: at, last_at: at, gateway: "cmt_1".to_owned() })
    }

    fn stored(at_fault: &str) -> Vec<u8> {
        let stream_id = stream_id();
        let stored = format!(
            r#"{{"entry":"parked","stream_id":"{stream_id}","cause":{{"kind":"unreadable","text":"unknown event X",{at_fault}}},"attempts":5,"first_at":"2026-01-02T03:04:05Z","last_at":"2026-01-02T03:04:05Z","gateway":"cmt_1"}}"#
        );
        stored.into_bytes()
    }

    #[test]
    fn the_stored_form_of_an_entry_never_changes() {
        let body = parked().encode(&stream_id()).unwrap();
        assert_eq!(String::from_utf8(body), String::from_utf8(stored(r#""shard":9,"sequence":7"#)));
        assert_eq!(Entry::decode(&stream_id(), &stored(r#""shard":9,"sequence":7"#)), parked());
    }

    #[test]
    fn entries_from_before_there_were_epochs_are_read() {
        let Entry::Parked(mut expected) = parked() else { unreachable!() };
        expected.cause.shard = None;
        assert_eq!(Entry::decode(&stream_id(), &stored(r#""sequence":7"#)), Entry::Parked(expected));
    }

    #[test]
    fn what_is_no_entry_of_this_stream_counts_as_parked() {
        let other = PaymentId::derive("a", "c").into();
        let stored_at = "2026-01-02T03:04:05Z".parse().unwrap();
        for body in [parked().encode(&other).unwrap(), b"{}".to_vec(), br#"{"entry":"pardoned"}"#.to_vec()] {
            let entry = Entry::decode(&stream_id(), &body);
            assert!(matches!(entry, Entry::Unknown { .. }), "{entry:?}");
            assert!(Record { stream_id: stream_id(), sequence: 1, stored_at, entry }.is_parked());
        }
    }

    #[test]
    fn texts_are_cut() {
        let cause = Cause::new(CauseKind::Panicked, &"é".repeat(5000), None);
        assert_eq!(cause.text.chars().count(), TEXT_CHARS_MAX);
    }
}
