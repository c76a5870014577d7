//! The envelope: the stored form of a commit, and the hash chain over the commits of one payment or batch.
//!
//! A stored message has the subject `gw.evt.{shard}.{stream_id}`, these headers, and the JSON body of
//! [`events::codec`]:
//!
//! | header | holds |
//! |---|---|
//! | `Gw-Type`, `Gw-Schema` | types and schema versions of the events, comma-separated |
//! | `Gw-Version` | 1, 2, 3 … in this payment or batch |
//! | `Gw-Correlation`, `Gw-Causation` | what set the work off, what led to this commit |
//! | `Gw-Prev` | hash of its previous message, `0x` and 64 digits; zeros for the first |
//! | `Nats-Msg-Id` | the commit's id |
//! | `Nats-Expected-Last-Subject-Sequence` | sequence of its previous message; 0 for the first |
//!
//! A message whose only event is `StreamMoved` is a mark and not a commit of the payment or batch: the stream of this id
//! begins in a later epoch, and nothing follows the mark on this subject (ADR 73).
//!
//! The hash of a message is SHA-256 over the line `subject\n`, a line `Name:value\n` for each of `Gw-Type`, `Gw-Schema`,
//! `Gw-Version`, `Gw-Correlation`, `Gw-Causation`, `Gw-Prev` and `Nats-Msg-Id` in this order, one empty line `\n`, and
//! the body bytes as stored. No value contains a line break, so the parts cannot slide into each other. With any client
//! and a shell:
//!
//! ```text
//! { printf '%s\n' "$subject" "Gw-Type:$type" … "Nats-Msg-Id:$id" ""; cat body; } | sha256sum
//! ```
//!
//! These bytes together are the commit's [`Flat`] form.

mod chain;
mod decode;
mod encode;
mod flat;
#[cfg(test)]
mod tests;

use sha2::{Digest, Sha256};

use events::{CommitId, Event, Hash32, StreamId, codec, event::Mark};

pub use self::{
    chain::Chain,
    decode::{StoredMessage, open},
    encode::EncodedCommit,
    flat::Flat,
};

/// Most bytes that subject, headers and body of a commit may have together; a nats-server takes 1 MiB by default.
pub const COMMIT_BYTES_MAX: usize = 900 * 1024;
/// Most characters of a correlation or causation; longer ones are cut.
pub const LABEL_CHARS_MAX: usize = 256;

/// Header that names the types of a commit's events.
pub const TYPE: &str = "Gw-Type";
/// Header that makes a publish conditional on the last sequence of its subject.
pub const EXPECTED_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";
/// Header by which a message is told from another; also the key of the server's duplicate window.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";
const SCHEMA: &str = "Gw-Schema";
const VERSION: &str = "Gw-Version";
const CORRELATION: &str = "Gw-Correlation";
const CAUSATION: &str = "Gw-Causation";
const PREV: &str = "Gw-Prev";
/// The headers that are hashed, in the order in which they are hashed.
const HASHED: [&str; 7] = [TYPE, SCHEMA, VERSION, CORRELATION, CAUSATION, PREV, MESSAGE_ID];

/// Why a commit cannot be stored, or a stored message is not a commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A commit without events.
    #[error("a commit must hold at least one event")]
    Empty,
    /// The commit exceeds [`COMMIT_BYTES_MAX`].
    #[error("commit of {bytes} bytes exceeds the most allowed, {COMMIT_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The commit's id is not a header value, or its position contradicts itself.
    #[error("commit is malformed: {0}")]
    Malformed(&'static str),
    /// The events cannot be encoded or decoded.
    #[error(transparent)]
    Codec(#[from] codec::Error),
    /// The subject is not that of a payment or batch of this shard.
    #[error("subject {0} is not of a payment or batch in this shard")]
    Subject(String),
    /// An event of another kind than its stream.
    #[error("event {0} does not belong into this stream")]
    Kind(&'static str),
    /// A header is missing, repeated or of the wrong form.
    #[error("header {name} {reason}")]
    Header {
        /// The header.
        name: &'static str,
        /// The defect.
        reason: &'static str,
    },
    /// The message is not the successor of the one before it.
    #[error("hash chain is broken: {0}")]
    Chain(String),
}

/// Name of the JetStream stream that holds a shard.
pub fn stream(shard: u16) -> String {
    format!("EVT_{shard:02}")
}

/// Subject of a payment or batch in its shard.
pub fn subject(shard: u16, stream_id: &StreamId) -> String {
    format!("gw.evt.{shard:02}.{stream_id}")
}

/// Subjects of all payments and batches of a shard.
pub fn shard_subjects(shard: u16) -> String {
    format!("gw.evt.{shard:02}.*")
}

/// The payment or batch of a subject in a shard.
///
/// # Errors
/// [`Error::Subject`] when it is none.
pub fn stream_of(shard: u16, subject: &str) -> Result<StreamId, Error> {
    let token = subject.strip_prefix("gw.evt.").and_then(|rest| {
        let (digits, token) = rest.split_once('.')?;
        // As [`subject`] writes it: two digits at least, and no zeros before more.
        let canonical = digits.bytes().all(|c| c.is_ascii_digit())
            && (digits.len() == 2 || digits.len() > 2 && !digits.starts_with('0'));
        (canonical && digits.parse() == Ok(shard)).then_some(token)
    });
    token.and_then(|token| token.parse().ok()).ok_or_else(|| Error::Subject(subject.to_owned()))
}

/// A text from outside as a header value: visible ASCII, everything else replaced by `_`, at most [`LABEL_CHARS_MAX`].
pub fn label(text: &str) -> String {
    text.chars().take(LABEL_CHARS_MAX).map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect()
}

/// Whether a message whose header [`TYPE`] holds `types` says that it is the mark [`Mark::Moved`] and no commit of its stream.
pub fn is_moved(types: Option<&str>) -> bool {
    types == Some(Mark::MOVED)
}

/// A commit holds at least one event, none of another kind than its stream, and a mark only alone.
fn check_events(stream_id: &StreamId, events: &[Event]) -> Result<(), Error> {
    if events.is_empty() {
        return Err(Error::Empty);
    }
    if let Some(mark) = events.iter().find(|event| matches!(event, Event::Mark(_)))
        && events.len() > 1
    {
        return Err(Error::Kind(mark.type_name()));
    }
    let foreign = events.iter().find(|event| !event.belongs_to(stream_id));
    foreign.map_or(Ok(()), |event| Err(Error::Kind(event.type_name())))
}

/// The part of a stored message that describes its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Subject of the message.
    pub subject: String,
    /// `Gw-Type`.
    pub types: String,
    /// `Gw-Schema`.
    pub schemas: String,
    /// `Gw-Version`.
    pub version: u64,
    /// `Gw-Correlation`.
    pub correlation: String,
    /// `Gw-Causation`.
    pub causation: String,
    /// `Gw-Prev`.
    pub prev: Hash32,
    /// `Nats-Msg-Id`.
    pub commit_id: CommitId,
}

/// The part of a stored message that is hashed before its body, as it stands there. Streams are read again and again, so
/// nothing is copied that is not kept.
struct Hashed<'a> {
    subject: &'a str,
    /// Values of the headers, in the order of [`HASHED`].
    values: [&'a str; 7],
    version: u64,
    prev: Hash32,
}

impl Hashed<'_> {
    /// The lines that are hashed before the body.
    fn preimage(&self) -> String {
        let lines = HASHED.into_iter().zip(self.values).flat_map(|(name, value)| [name, ":", value, "\n"]);
        let parts = [self.subject, "\n"].into_iter().chain(lines).chain(["\n"]);
        let mut preimage = String::with_capacity(parts.clone().map(str::len).sum());
        preimage.extend(parts);
        preimage
    }

    /// The hash of the message with this `body`, as defined by this module.
    fn hash(&self, body: &[u8]) -> Hash32 {
        hash_of(&self.preimage(), body)
    }
}

fn hash_of(preimage: &str, body: &[u8]) -> Hash32 {
    let mut hasher = Sha256::new();
    hasher.update(preimage);
    hasher.update(body);
    Hash32(hasher.finalize().into())
}

impl Envelope {
    /// What `use_it` makes of the part that is hashed.
    fn hashed<T>(&self, use_it: impl FnOnce(&Hashed<'_>) -> T) -> T {
        let Self { subject, types, schemas, correlation, causation, commit_id, version, prev } = self;
        let (version, prev) = (*version, *prev);
        let (version_text, prev_text) = (version.to_string(), prev.to_string());
        let values: [&str; 7] = [types, schemas, &version_text, correlation, causation, &prev_text, commit_id.as_str()];
        use_it(&Hashed { subject, values, version, prev })
    }

    /// The hash of the message with this envelope and `body`, as defined by this module.
    pub fn hash(&self, body: &[u8]) -> Hash32 {
        self.hashed(|hashed| hashed.hash(body))
    }
}
