//! The flat form: a commit as one text, which is the lines that are hashed and the body, byte for byte.
//!
//! So the hash of the commit is the SHA-256 of its flat form, and many commits can lie in one message of a shard log.

use std::str;

use events::{Hash32, StreamId, time::Timestamp};

use super::{EncodedCommit, Error, HASHED, Hashed, stream_of};
use crate::Recorded;

/// The flat form, taken apart.
pub struct Flat<'a> {
    hashed: Hashed<'a>,
    text: &'a [u8],
    body: &'a [u8],
}

impl EncodedCommit {
    /// The lines of the flat form before the body.
    pub fn flat_head(&self) -> String {
        self.envelope.hashed(|hashed| hashed.preimage())
    }
}

impl<'a> Flat<'a> {
    /// Takes a flat form apart.
    ///
    /// # Errors
    /// [`Error::Header`] where a line is missing or is not what belongs there, [`Error::Malformed`] where it is not text.
    pub fn read(text: &'a [u8]) -> Result<Self, Error> {
        let mut rest = text;
        let subject = line(&mut rest)?;
        let mut pairs = [("", ""); HASHED.len()];
        for (pair, name) in pairs.iter_mut().zip(HASHED) {
            let value = line(&mut rest)?.strip_prefix(name).and_then(|value| value.strip_prefix(':'));
            *pair = (name, value.ok_or(Error::Header { name, reason: "is not in its place" })?);
        }
        if !line(&mut rest)?.is_empty() {
            return Err(Error::Malformed("there is more than is hashed before the body"));
        }
        Ok(Self { hashed: Hashed::read(subject, pairs)?, text, body: rest })
    }

    /// Which commit of its stream it says it is.
    pub fn version(&self) -> u64 {
        self.hashed.version
    }

    /// The hash of the commit before it, by its word.
    pub fn prev(&self) -> Hash32 {
        self.hashed.prev
    }

    /// Its hash.
    pub fn hash(&self) -> Hash32 {
        Hash32::sha256(self.text)
    }

    /// The payment or batch that it belongs to.
    ///
    /// # Errors
    /// [`Error::Subject`] when it is none of this shard.
    pub fn stream_id(&self, shard: u16) -> Result<StreamId, Error> {
        stream_of(shard, self.hashed.subject)
    }

    /// The subject that it says it has.
    pub fn subject(&self) -> &'a str {
        self.hashed.subject
    }

    /// The commit that it is, at `sequence` of `shard`.
    ///
    /// # Errors
    /// As those of [`super::Envelope::open`].
    pub fn open(&self, shard: u16, sequence: u64, stored_at: Timestamp) -> Result<Recorded, Error> {
        self.hashed.open(shard, sequence, self.body, stored_at)
    }
}

/// The next line, without its end.
fn line<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Error> {
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or(Error::Malformed("it ends before its body"))?;
    let (line, behind) = rest.split_at(end);
    *rest = &behind[1..];
    str::from_utf8(line).map_err(|_| Error::Malformed("it is not text"))
}
