//! Decoding: a stored message as the commit that it is.

use std::str::FromStr;

use events::{CommitId, Hash32, codec, time::Timestamp};

use super::{Envelope, Error, HASHED, Hashed, PREV, VERSION, check_events, stream_of};
use crate::{Position, Recorded};

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

    /// The commit that the message at `sequence` of `shard` is.
    ///
    /// # Errors
    /// [`Error::Subject`], [`Error::Codec`], [`Error::Empty`] or [`Error::Kind`].
    pub fn open(self, shard: u16, sequence: u64, body: &[u8], stored_at: Timestamp) -> Result<Recorded, Error> {
        self.hashed(|hashed| hashed.open(shard, sequence, body, stored_at))
    }
}

impl<'a> Hashed<'a> {
    pub(super) fn read(subject: &'a str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
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
                VERSION => version = version_of(value).ok_or(Error::Header { name, reason: "is not a version" })?,
                PREV => prev = prev_of(value).ok_or(Error::Header { name, reason: "is not a hash" })?,
                _ => {}
            }
        }
        Ok(Self { subject, values, version, prev })
    }

    /// The commit that the message with this `body` at `sequence` of `shard` is.
    pub(super) fn open(&self, shard: u16, sequence: u64, body: &[u8], stored_at: Timestamp) -> Result<Recorded, Error> {
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

/// The version that a header says. The text is hashed and the number is kept, so there is one text for a number.
fn version_of(text: &str) -> Option<u64> {
    if matches!(text.as_bytes(), [b'1'..=b'9', ..]) { text.parse().ok() } else { None }
}

/// The hash that a header says, which is written in one way, too.
fn prev_of(text: &str) -> Option<Hash32> {
    if text.bytes().any(|c| c.is_ascii_uppercase()) { None } else { Hash32::from_str(text).ok() }
}
