//! Signed checkpoints: the length and the hash of a shard's stream, as a gateway saw it.
//!
//! The hash chain of each payment finds a message that was altered, but not a stream whose end was cut off, nor a payment
//! that was written anew as a whole. So gateways sign, for each shard, a hash over *all* its messages up to a sequence.
//!
//! **Rolling hash.** H₀ is 32 zero bytes; Hₙ = SHA-256 over the 16 ASCII bytes `gw:checkpoint:v1`, Hₙ₋₁, the sequence n as
//! a 64-bit big-endian number, and the hash of the message at sequence n (`RawMessage::hash` of the crate `journal-jetstream`:
//! subject, the `Gw-*` headers, the commit id and the body, as they are stored).
//!
//! **Checkpoint.** A JSON object in stream `CHK`, subject `gw.chk.{shard}`, with the members of [`Checkpoint`] and
//! `signature`: Ed25519, hex with 0x, by the key in the did:key `signer`, over these lines, each ended by `\n`:
//!
//! ```text
//! gw:signed-checkpoint:v1
//! shard:0
//! sequence:42
//! rolling_hash:0x…
//! commit_id:…
//! time:2026-01-02T03:04:05.678Z
//! previous:0x…
//! signer:did:key:z6Mk…
//! ```
//!
//! The hash of a checkpoint is SHA-256 of the same lines; `previous` is that of the shard's checkpoint before, zeros for
//! the first. So the checkpoints of a shard are a chain too: a reader that remembers one of them notices another chain.

use ed25519_dalek::{Signature, Signer, SigningKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use events::{CommitId, Did, Hash32, time::Timestamp};

/// Stream that holds the checkpoints of all shards.
pub const STREAM: &str = "CHK";
/// Largest checkpoint that is read, in bytes.
const CHECKPOINT_BYTES_MAX: usize = 4096;
const ROLLING_DOMAIN: &[u8; 16] = b"gw:checkpoint:v1";
const SIGNED_DOMAIN: &str = "gw:signed-checkpoint:v1";
const KIND: &str = "GatewayCheckpoint";

/// Subject of a shard's checkpoints.
pub fn subject(shard: u16) -> String {
    format!("gw.chk.{shard:02}")
}

/// A rolling hash over the messages of one shard, from its first on.
///
/// ```
/// use events::Hash32;
/// use journal::checkpoint::Rolling;
///
/// let mut rolling = Rolling::START;
/// rolling.follow(Hash32::sha256("first message"));
/// assert_eq!(rolling.sequence, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rolling {
    /// Sequence of the last message in it; 0 for none.
    pub sequence: u64,
    /// The hash.
    pub hash: Hash32,
}

impl Rolling {
    /// Before the first message.
    pub const START: Self = Self { sequence: 0, hash: Hash32::ZERO };

    /// Takes the next message, whose hash is `message`.
    pub fn follow(&mut self, message: Hash32) {
        self.sequence += 1;
        let mut hasher = Sha256::new();
        hasher.update(ROLLING_DOMAIN);
        hasher.update(self.hash.0);
        hasher.update(self.sequence.to_be_bytes());
        hasher.update(message.0);
        self.hash = Hash32(hasher.finalize().into());
    }
}

/// The state of a shard at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The shard.
    pub shard: u16,
    /// Sequence of its last message; at least 1.
    pub sequence: u64,
    /// The rolling hash over all its messages up to that one.
    pub rolling_hash: Hash32,
    /// Commit id of that last message; empty when it bears none.
    pub commit_id: CommitId,
    /// When it was signed; whole milliseconds.
    pub time: Timestamp,
    /// Hash of the shard's checkpoint before; zero for the first.
    pub previous: Hash32,
    /// The signer: a did:key of an Ed25519 key.
    pub signer: Did,
}

/// A checkpoint whose signature holds for its signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCheckpoint {
    checkpoint: Checkpoint,
    signature: Signature,
}

/// Why stored bytes are not a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a checkpoint's JSON object.
    #[error("checkpoint is malformed: {0}")]
    Malformed(String),
    /// The signature is not the signer's.
    #[error("signature of the checkpoint does not verify for {0}")]
    Signature(Did),
    /// The key is not that of the signer.
    #[error("the key is not that of {0}")]
    Key(Did),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(rename = "type")]
    kind: String,
    shard: u16,
    sequence: u64,
    rolling_hash: Hash32,
    commit_id: String,
    time: String,
    previous: Hash32,
    signer: Did,
    signature: String,
}

impl Checkpoint {
    fn time_text(&self) -> String {
        self.time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
    }

    /// The bytes that are signed and hashed.
    fn preimage(&self) -> String {
        let Self { shard, sequence, rolling_hash, commit_id, previous, signer, .. } = self;
        let time = self.time_text();
        format!(
            "{SIGNED_DOMAIN}\nshard:{shard}\nsequence:{sequence}\nrolling_hash:{rolling_hash}\ncommit_id:{commit_id}\n\
             time:{time}\nprevious:{previous}\nsigner:{signer}\n"
        )
    }

    /// Its hash, which the shard's next checkpoint names.
    pub fn hash(&self) -> Hash32 {
        Hash32::sha256(self.preimage())
    }

    /// Signs the checkpoint.
    ///
    /// # Errors
    /// [`Error::Key`] when `key` is not the key of [`Checkpoint::signer`].
    pub fn sign(self, key: &SigningKey) -> Result<SignedCheckpoint, Error> {
        if Did::from_ed25519(&key.verifying_key()) != self.signer {
            return Err(Error::Key(self.signer));
        }
        let signature = key.sign(self.preimage().as_bytes());
        Ok(SignedCheckpoint { checkpoint: self, signature })
    }
}

impl SignedCheckpoint {
    /// Reads a stored checkpoint and verifies its signature. Whether its signer is one to be believed is another question.
    ///
    /// # Errors
    /// [`Error`]; nothing of it may be believed then.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let malformed = |reason: &str| Error::Malformed(reason.to_owned());
        if body.len() > CHECKPOINT_BYTES_MAX {
            return Err(malformed("too large"));
        }
        let text: Text = serde_json::from_slice(body).map_err(|error| Error::Malformed(error.to_string()))?;
        if text.kind != KIND || text.sequence == 0 {
            return Err(malformed("another type, or of no message"));
        }
        if !text.commit_id.bytes().all(|c| c.is_ascii_graphic()) {
            return Err(malformed("commit_id is not visible ASCII"));
        }
        let time = text.time.parse().map_err(|_| malformed("time is not an RFC 3339 time"))?;
        let checkpoint = Checkpoint {
            shard: text.shard,
            sequence: text.sequence,
            rolling_hash: text.rolling_hash,
            commit_id: CommitId::from_stored(text.commit_id),
            time,
            previous: text.previous,
            signer: text.signer,
        };
        // The text is signed and the time is kept, so there must be one text for a time.
        if checkpoint.time_text() != text.time {
            return Err(malformed("time is not in whole milliseconds with Z"));
        }
        let key = checkpoint.signer.ed25519_key().map_err(|error| Error::Malformed(error.to_string()))?;
        let bytes = text.signature.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok());
        let signature = bytes.and_then(|bytes| Signature::from_slice(&bytes).ok());
        let signature = signature.ok_or_else(|| malformed("signature must be 0x and 128 hex digits"))?;
        key.verify_strict(checkpoint.preimage().as_bytes(), &signature)
            .map_err(|_| Error::Signature(checkpoint.signer.clone()))?;
        Ok(Self { checkpoint, signature })
    }

    /// The form in which it is stored.
    pub fn to_json(&self) -> Vec<u8> {
        let Checkpoint { shard, sequence, rolling_hash, commit_id, previous, signer, .. } = &self.checkpoint;
        let text = Text {
            kind: KIND.to_owned(),
            shard: *shard,
            sequence: *sequence,
            rolling_hash: *rolling_hash,
            commit_id: commit_id.to_string(),
            time: self.checkpoint.time_text(),
            previous: *previous,
            signer: signer.clone(),
            signature: format!("0x{}", hex::encode(self.signature.to_bytes())),
        };
        // Numbers and strings always serialize.
        serde_json::to_vec(&text).unwrap_or_default()
    }

    /// The signed content.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            shard: 3,
            sequence: 42,
            rolling_hash: Hash32([1; 32]),
            commit_id: CommitId::from_stored("cmt"),
            time: "2026-01-02T03:04:05.678Z".parse().unwrap(),
            previous: Hash32([2; 32]),
            signer: Did::from_ed25519(&key().verifying_key()),
        }
    }

    #[test]
    fn the_documented_bytes_never_change() {
        // The same by hand, in Python:
        // h = bytes(32); h = sha256(b"gw:checkpoint:v1" + h + (1).to_bytes(8, "big") + bytes([9]) * 32).digest()
        let mut rolling = Rolling::START;
        rolling.follow(Hash32([9; 32]));
        let preimage = [&b"gw:checkpoint:v1"[..], &[0; 32], &[0, 0, 0, 0, 0, 0, 0, 1], &[9; 32]].concat();
        assert_eq!((rolling.sequence, rolling.hash), (1, Hash32::sha256(preimage)));
        let text = checkpoint().preimage();
        let ones = Hash32([1; 32]);
        assert!(text.starts_with(&format!(
            "gw:signed-checkpoint:v1\nshard:3\nsequence:42\nrolling_hash:{ones}\ncommit_id:cmt\ntime:2026-01-02T03:04:05.678Z\nprevious:0x0202"
        )));
        assert!(text.ends_with(&format!("\nsigner:{}\n", checkpoint().signer)));
    }

    #[test]
    fn a_signed_checkpoint_reads_back_and_every_alteration_is_found() {
        let signed = checkpoint().sign(&key()).unwrap();
        let json = signed.to_json();
        assert_eq!(SignedCheckpoint::parse(&json), Ok(signed.clone()));
        let text = String::from_utf8(json).unwrap();
        let foreign = Did::from_ed25519(&SigningKey::from_bytes(&[8; 32]).verifying_key());
        for (from, to) in [
            ("\"shard\":3", "\"shard\":4"),
            ("\"sequence\":42", "\"sequence\":41"),
            ("0x0101", "0x0201"),
            ("cmt", "cmu"),
            (".678Z", ".679Z"),
            ("0x0202", "0x0302"),
            (checkpoint().signer.as_str(), foreign.as_str()),
        ] {
            let altered = text.replacen(from, to, 1);
            assert_ne!(altered, text, "{from}");
            assert!(matches!(SignedCheckpoint::parse(altered.as_bytes()), Err(Error::Signature(_))), "{from}");
        }
        for (from, to) in [(".678Z", ".678+00:00"), ("GatewayCheckpoint", "X"), ("\"shard\"", "\"extra\":1,\"shard\"")]
        {
            let altered = text.replacen(from, to, 1);
            assert!(matches!(SignedCheckpoint::parse(altered.as_bytes()), Err(Error::Malformed(_))), "{from}");
        }
        assert!(matches!(checkpoint().sign(&SigningKey::from_bytes(&[8; 32])), Err(Error::Key(_))));
    }
}
