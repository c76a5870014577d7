//! Encoding: a commit in the form in which it is stored.

use bytes::Bytes;

use events::{Hash32, codec, time::Timestamp};

use super::{
    COMMIT_BYTES_MAX, EXPECTED_SEQUENCE, Envelope, Error, HASHED, LABEL_CHARS_MAX, check_events, hash_of, label,
    subject,
};
use crate::{Commit, Position, Recorded};

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
