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

use std::str::FromStr;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use events::{CommitId, Event, Hash32, StreamId, codec, event::Mark, time::Timestamp};

use super::{Commit, Position, Recorded};

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

/// A commit ready to be stored.
#[derive(Debug, Clone)]
pub struct EncodedCommit {
    /// Shard it belongs to.
    pub shard: u16,
    /// Its envelope.
    pub envelope: Envelope,
    /// Its body.
    pub body: Bytes,
    /// Hash of the message it becomes.
    pub hash: Hash32,
}

impl EncodedCommit {
    /// Puts a commit into the form in which it is stored.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Kind`], [`Error::TooLarge`], [`Error::Malformed`] or [`Error::Codec`]; the commit can never be stored.
    pub fn new(commit: &Commit, shard: u16) -> Result<Self, Error> {
        let at = commit.expected;
        check_events(&commit.stream_id, &commit.events)?;
        if (at.version == 0) != (at.sequence == 0) || (at.version == 0) != (at.hash == Hash32::ZERO) {
            return Err(Error::Malformed("version, sequence and hash of its position do not fit together"));
        }
        let id = commit.commit_id.as_str();
        if id.is_empty() || id.len() > LABEL_CHARS_MAX || !id.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(Error::Malformed("commit id must be 1 to 256 visible ASCII characters"));
        }
        let encoded = codec::encode(&commit.events)?;
        let envelope = Envelope {
            subject: subject(shard, &commit.stream_id),
            types: encoded.types,
            schemas: encoded.schemas,
            version: at.version + 1,
            correlation: label(&commit.correlation),
            causation: label(&commit.causation),
            prev: at.hash,
            commit_id: commit.commit_id.clone(),
        };
        let preimage = envelope.hashed(|hashed| hashed.preimage());
        let bytes = preimage.len() + encoded.body.len();
        if bytes > COMMIT_BYTES_MAX {
            return Err(Error::TooLarge { bytes });
        }
        let hash = hash_of(&preimage, &encoded.body);
        Ok(Self { shard, envelope, body: encoded.body.into(), hash })
    }

    /// The headers of the message by name, conditional on `expected` being the last sequence of the payment.
    pub fn headers(&self, expected: u64) -> impl Iterator<Item = (&'static str, String)> {
        let values = self.envelope.hashed(|hashed| hashed.values.map(str::to_owned));
        HASHED.into_iter().zip(values).chain([(EXPECTED_SEQUENCE, expected.to_string())])
    }

    /// What is on record of `commit`, from which this was made, once the message lies at `sequence`.
    pub fn recorded(&self, commit: &Commit, sequence: u64, stored_at: Timestamp) -> Recorded {
        Recorded {
            stream_id: commit.stream_id.clone(),
            position: Position { shard: self.shard, version: self.envelope.version, sequence, hash: self.hash },
            commit_id: commit.commit_id.clone(),
            prev: self.envelope.prev,
            correlation: self.envelope.correlation.clone(),
            causation: self.envelope.causation.clone(),
            stored_at,
            events: commit.events.clone(),
        }
    }
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

impl<'a> Hashed<'a> {
    fn read(subject: &'a str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let mut found = [(None, false); HASHED.len()];
        for (name, value) in headers {
            if let Some(at) = HASHED.iter().position(|hashed| *hashed == name) {
                let (first, is_repeated) = &mut found[at];
                *is_repeated = first.replace(value).is_some();
            }
        }
        let mut values = [""; HASHED.len()];
        let (mut version, mut prev) = (0, Hash32::ZERO);
        for ((name, found), value) in HASHED.into_iter().zip(found).zip(&mut values) {
            *value = match found {
                (Some(one), false) => one,
                (None, _) => return Err(Error::Header { name, reason: "is missing" }),
                (Some(_), true) => return Err(Error::Header { name, reason: "stands twice" }),
            };
            match name {
                VERSION => version = version_of(value).ok_or(Error::Header { name, reason: "is no version" })?,
                PREV => prev = prev_of(value).ok_or(Error::Header { name, reason: "is no hash" })?,
                _ => {}
            }
        }
        Ok(Self { subject, values, version, prev })
    }

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

    /// The commit that the message with this `body` at `sequence` of `shard` is.
    fn open(&self, shard: u16, sequence: u64, body: &[u8], stored_at: Timestamp) -> Result<Recorded, Error> {
        let [types, schemas, _, correlation, causation, _, commit_id] = self.values;
        let stream_id = stream_of(shard, self.subject)?;
        let events = codec::decode(types, schemas, body)?;
        check_events(&stream_id, &events)?;
        Ok(Recorded {
            stream_id,
            position: Position { shard, version: self.version, sequence, hash: self.hash(body) },
            commit_id: CommitId::from_stored(commit_id),
            prev: self.prev,
            correlation: correlation.to_owned(),
            causation: causation.to_owned(),
            stored_at,
            events,
        })
    }
}

fn hash_of(preimage: &str, body: &[u8]) -> Hash32 {
    let mut hasher = Sha256::new();
    hasher.update(preimage);
    hasher.update(body);
    Hash32(hasher.finalize().into())
}

/// The version that a header says. The text is hashed and the number is kept, so there is one text for a number.
fn version_of(text: &str) -> Option<u64> {
    if matches!(text.as_bytes(), [b'1'..=b'9', ..]) { text.parse().ok() } else { None }
}

/// The hash that a header says, which is written in one way, too.
fn prev_of(text: &str) -> Option<Hash32> {
    if text.bytes().any(|c| c.is_ascii_uppercase()) { None } else { Hash32::from_str(text).ok() }
}

/// A message as it lies in the stream of a shard.
#[derive(Debug, Clone, Copy)]
pub struct StoredMessage<'a> {
    /// Its subject.
    pub subject: &'a str,
    /// Its stream sequence.
    pub sequence: u64,
    /// Its body.
    pub body: &'a [u8],
    /// When it was stored.
    pub stored_at: Timestamp,
}

/// The commit that a message of `shard` with these headers is.
///
/// # Errors
/// Those of [`Envelope::read`] and [`Envelope::open`].
pub fn open<'a>(
    shard: u16,
    message: StoredMessage<'a>,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Recorded, Error> {
    let hashed = Hashed::read(message.subject, headers)?;
    hashed.open(shard, message.sequence, message.body, message.stored_at)
}

impl Envelope {
    /// Reads the envelope of a stored message; `headers` are pairs of name and value, a repeated one in as many pairs.
    ///
    /// # Errors
    /// [`Error::Header`] naming the header that is missing, repeated or of the wrong form.
    pub fn read<'a>(subject: &'a str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let Hashed { subject, values, version, prev } = Hashed::read(subject, headers)?;
        let [types, schemas, _, correlation, causation, _, commit_id] = values.map(str::to_owned);
        let (subject, commit_id) = (subject.to_owned(), CommitId::from_stored(commit_id));
        Ok(Self { subject, types, schemas, version, correlation, causation, prev, commit_id })
    }

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

    /// The commit that the message at `sequence` of `shard` is.
    ///
    /// # Errors
    /// [`Error::Subject`], [`Error::Codec`], [`Error::Empty`] or [`Error::Kind`].
    pub fn open(self, shard: u16, sequence: u64, body: &[u8], stored_at: Timestamp) -> Result<Recorded, Error> {
        self.hashed(|hashed| hashed.open(shard, sequence, body, stored_at))
    }
}

/// Walks along one stream's commits and checks that each is the successor of the one before.
#[derive(Debug, Clone)]
pub struct Chain {
    at: Position,
}

impl Default for Chain {
    fn default() -> Self {
        Self { at: Position::START }
    }
}

impl Chain {
    /// Where the walk stands.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Takes the next commit.
    ///
    /// # Errors
    /// [`Error::Chain`] when its version, predecessor's hash or sequence is not that of the successor.
    pub fn follow(&mut self, next: &Recorded) -> Result<(), Error> {
        let expected = self.at.version + 1;
        if next.position.version != expected {
            return Err(Error::Chain(format!("version {} where {expected} belongs", next.position.version)));
        }
        if next.prev != self.at.hash {
            return Err(Error::Chain(format!(
                "Gw-Prev is {}, the message before hashes to {}",
                next.prev, self.at.hash
            )));
        }
        if next.position.sequence <= self.at.sequence {
            return Err(Error::Chain(format!("sequence {} is not above {}", next.position.sequence, self.at.sequence)));
        }
        self.at = next.position;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use events::{
        PaymentEvent, PaymentId, QuoteRequestId,
        event::{Moved, TransactionAbandoned},
    };

    fn pairs<'a>(headers: &'a [(&'static str, String)]) -> impl Iterator<Item = (&'a str, &'a str)> {
        headers.iter().map(|(name, value)| (*name, value.as_str()))
    }

    fn abandoned(evidence: String) -> Event {
        let abandoned_at = "2026-01-02T03:04:05Z".parse().unwrap();
        PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt: 1, evidence, abandoned_at }).into()
    }

    fn commit() -> Commit {
        Commit {
            stream_id: PaymentId::derive("eip155:0xabc", "order-1").into(),
            expected: Position { shard: 3, version: 1, sequence: 7, hash: Hash32([0x11; 32]) },
            commit_id: CommitId::from_stored("cmt1"),
            events: vec![abandoned("nonce consumed".into())],
            correlation: "req 1\r\nGw-Prev: 0x00".into(),
            causation: "cmt0".into(),
        }
    }

    #[test]
    fn hash_of_a_known_message_never_changes() {
        // The same by hand: { printf '%s\n' "$subject" … ""; printf '%s' "$body"; } | sha256sum
        let encoded = EncodedCommit::new(&commit(), 3).unwrap();
        assert_eq!(encoded.hash.to_string(), "0x322e2f7041113e618c5d0bd1f019916b384c691498ecafb03f8152f4bccdd7cf");
    }

    #[test]
    fn labels_cannot_break_out_of_their_header() {
        let encoded = EncodedCommit::new(&commit(), 3).unwrap();
        assert_eq!(encoded.envelope.correlation, "req_1__Gw-Prev:_0x00");
        assert_eq!(label(&"é".repeat(1000)), "_".repeat(LABEL_CHARS_MAX));
    }

    #[test]
    fn envelope_survives_its_headers() {
        let encoded = EncodedCommit::new(&commit(), 3).unwrap();
        let headers: Vec<_> = encoded.headers(7).collect();
        let read = Envelope::read(&encoded.envelope.subject, pairs(&headers)).unwrap();
        assert_eq!(read, encoded.envelope);
        assert_eq!(read.hash(&encoded.body), encoded.hash);
    }

    #[test]
    fn damaged_headers_are_named() {
        let encoded = EncodedCommit::new(&commit(), 3).unwrap();
        let read = |name: &'static str, value: &str, is_added: bool| {
            let mut headers: Vec<_> = encoded.headers(7).collect();
            headers.retain(|(kept, _)| is_added || *kept != name);
            headers.push((name, value.to_owned()));
            Envelope::read(&encoded.envelope.subject, pairs(&headers))
        };
        let upper = format!("0x{}", "AB".repeat(32));
        let versions = ["", "02", "0", "+2", "-1", "2 ", "18446744073709551616"].map(|text| (VERSION, text));
        let hashes = ["", "0xAB", "ab", &upper].map(|text| (PREV, text));
        for (name, value) in versions.into_iter().chain(hashes) {
            let reason = if name == VERSION { "is no version" } else { "is no hash" };
            assert_eq!(read(name, value, false), Err(Error::Header { name, reason }), "{value}");
        }
        let twice = Err(Error::Header { name: PREV, reason: "stands twice" });
        assert_eq!(read(PREV, "0x00", true), twice);
        let none = Envelope::read("gw.evt.03.x", []);
        assert_eq!(none, Err(Error::Header { name: TYPE, reason: "is missing" }));
    }

    #[test]
    fn what_can_never_be_stored_is_refused() {
        let encoded = |change: &dyn Fn(&mut Commit)| {
            let mut commit = commit();
            change(&mut commit);
            EncodedCommit::new(&commit, 3).err()
        };
        assert_eq!(encoded(&|commit| commit.events.clear()), Some(Error::Empty));
        assert!(matches!(encoded(&|commit| commit.expected.sequence = 0), Some(Error::Malformed(_))));
        assert!(matches!(
            encoded(&|commit| commit.commit_id = CommitId::from_stored("a\nb")),
            Some(Error::Malformed(_))
        ));
        let large = encoded(&|commit| commit.events[0] = abandoned("x".repeat(COMMIT_BYTES_MAX)));
        assert!(matches!(large, Some(Error::TooLarge { .. })));
        let foreign = encoded(&|commit| commit.stream_id = QuoteRequestId::derive("a", "b").into());
        assert_eq!(foreign, Some(Error::Kind("DepositAbandoned")));
        let mark: Event = Mark::Moved(Moved { to_epoch: 1 }).into();
        assert_eq!(encoded(&|commit| commit.events = vec![mark.clone()]), None);
        let beside = encoded(&|commit| commit.events.push(mark.clone()));
        assert_eq!(beside, Some(Error::Kind("StreamMoved")));
    }

    #[test]
    fn a_foreign_subject_is_no_stream() {
        let id = StreamId::from(PaymentId::derive("a", "b"));
        for id in [&id, &QuoteRequestId::derive("a", "b").into()] {
            assert_eq!(stream_of(3, &subject(3, id)).as_ref(), Ok(id));
        }
        for foreign in [subject(4, &id), format!("gw.evt.03.{id}.x"), "gw.evt.03.".to_owned(), "gw.sig.x".to_owned()] {
            assert!(stream_of(3, &foreign).is_err(), "{foreign}");
        }
        for shard in ["3", "003", "+3", "", "0x3"] {
            assert!(stream_of(3, &format!("gw.evt.{shard}.{id}")).is_err(), "{shard}");
        }
        for shard in [0, 99, 100, 255] {
            assert_eq!(stream_of(shard, &subject(shard, &id)).as_ref(), Ok(&id));
        }
    }
}
