//! Identifiers of payments, quote requests and commits, and 32-byte hashes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use sha3::Keccak256;

use crate::text;

/// Prefix of every payment id.
const PAYMENT_PREFIX: &str = "pay_";
/// Characters of an unpadded base32 SHA-256.
const DIGEST_CHARS: usize = 52;

/// Lower-case unpadded base32 of `bytes` (RFC 4648 alphabet), safe as a NATS subject token and in a URL path.
pub(crate) fn base32(bytes: &[u8]) -> String {
    data_encoding::BASE32_NOPAD.encode(bytes).to_ascii_lowercase()
}

/// `prefix` and the base32 SHA-256 of `domain`, `originator` and `request_id`.
fn derive(prefix: &str, domain: &str, originator: &str, request_id: &str) -> String {
    derive_of(prefix, &[domain, originator, request_id])
}

/// `prefix` and the base32 SHA-256 of `parts`.
fn derive_of(prefix: &str, parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // Each part is preceded by its length, so that no two lists of parts hash the same bytes.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    format!("{prefix}{}", base32(&hasher.finalize()))
}

/// Whether `text` is `prefix` followed by what [`derive`] makes.
fn is_derived(prefix: &str, text: &str) -> bool {
    let legal = |c: u8| c.is_ascii_lowercase() || (b'2'..=b'7').contains(&c);
    text.strip_prefix(prefix).is_some_and(|digest| digest.len() == DIGEST_CHARS && digest.bytes().all(legal))
}

/// The shard of `shards` in which the stream with this id lives.
fn shard_of(id: &str, shards: u16) -> u16 {
    debug_assert!(shards > 0);
    let digest = Sha256::digest(id.as_bytes());
    let head =
        u64::from_be_bytes([digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7]]);
    (head % u64::from(shards)) as u16
}

/// Id of a payment, derived from who asked and under which `request_id` (design: identity and idempotency).
///
/// Because the id is a function of the idempotency key, the first append to the payment's own subject
/// decides who holds it: two gateways that receive the same submission race for the same subject, and one wins.
///
/// ```
/// use events::PaymentId;
///
/// let id = PaymentId::derive("eip155:0xabc", "order-1");
/// assert_eq!(id, PaymentId::derive("eip155:0xabc", "order-1"));
/// assert_eq!(id.as_str().parse(), Ok(id));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaymentId(String);

/// The text is not a payment id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `pay_` followed by 52 characters of lower-case base32")]
pub struct InvalidPaymentId;

impl PaymentId {
    /// The id of the payment that `originator` asked for under `request_id`.
    pub fn derive(originator: &str, request_id: &str) -> Self {
        Self(derive(PAYMENT_PREFIX, "gw:payment:v1", originator, request_id))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `keccak256` of the id's text: the `paymentId` by which the escrow and the fulfillment proxy know the payment.
    pub fn on_chain(&self) -> Hash32 {
        Hash32(Keccak256::digest(self.0.as_bytes()).into())
    }

    /// The shard of `shards` in which the payment's stream lives; stable for ever for a given number of shards.
    pub fn shard(&self, shards: u16) -> u16 {
        shard_of(&self.0, shards)
    }
}

/// Id of a quote-request batch (spec 2.13), derived as a [`PaymentId`] is, from a key space of its own: a batch and a
/// payment may bear the same `request_id`.
///
/// ```
/// use events::QuoteRequestId;
///
/// let id = QuoteRequestId::derive("eip155:0xabc", "order-1");
/// assert_eq!(id.as_str().parse(), Ok(id));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuoteRequestId(String);

/// The text is not a quote request id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `qrq_` followed by 52 characters of lower-case base32")]
pub struct InvalidQuoteRequestId;

impl QuoteRequestId {
    /// What every id begins with, and no other stream's.
    pub const PREFIX: &str = "qrq_";

    /// The id of the batch that `originator` asked for under `request_id`.
    pub fn derive(originator: &str, request_id: &str) -> Self {
        Self(derive(Self::PREFIX, "gw:quote-request:v1", originator, request_id))
    }

    /// The id of the batch that somebody asked for who proved nothing, names `originator` and is told apart by a secret with
    /// this SHA-256: whoever does not know the secret cannot derive the id, and so cannot take it.
    ///
    /// ```
    /// use events::{Hash32, QuoteRequestId};
    ///
    /// let secret = Hash32::sha256("correct-horse-battery-staple");
    /// let id = QuoteRequestId::derive_with_secret("eip155:0xabc", "order-1", &secret);
    /// assert_ne!(id, QuoteRequestId::derive("eip155:0xabc", "order-1"));
    /// ```
    pub fn derive_with_secret(originator: &str, request_id: &str, secret: &Hash32) -> Self {
        let parts = ["gw:quote-request-with-secret:v1", originator, request_id, &secret.to_string()];
        Self(derive_of(Self::PREFIX, &parts))
    }

    /// The id of the auction that follows the `round`-th lapsed reservation of `payment` (ADR 148), counted from 1. No batch has
    /// it. It has this form because verifiers take a quote of any auction of this form for any payment.
    ///
    /// ```
    /// use events::{PaymentId, QuoteRequestId};
    ///
    /// let payment = PaymentId::derive("eip155:0xabc", "order-1");
    /// assert_ne!(QuoteRequestId::of_reassignment(&payment, 1), QuoteRequestId::of_reassignment(&payment, 2));
    /// ```
    pub fn of_reassignment(payment: &PaymentId, round: usize) -> Self {
        Self(derive_of(Self::PREFIX, &["gw:reassignment:v1", payment.as_str(), &round.to_string()]))
    }

    /// The id as text. It is also the id of the batch's auction.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shard of `shards` in which the batch's stream lives; stable for ever for a given number of shards.
    pub fn shard(&self, shards: u16) -> u16 {
        shard_of(&self.0, shards)
    }
}

/// Id of one event stream: of a payment, or of a quote-request batch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// A payment.
    Payment(PaymentId),
    /// A quote-request batch.
    QuoteRequest(QuoteRequestId),
}

/// The text is not the id of a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `pay_` or `qrq_` followed by 52 characters of lower-case base32")]
pub struct InvalidStreamId;

impl StreamId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Payment(id) => id.as_str(),
            Self::QuoteRequest(id) => id.as_str(),
        }
    }

    /// The shard of `shards` in which the stream lives; stable for ever for a given number of shards.
    pub fn shard(&self, shards: u16) -> u16 {
        shard_of(self.as_str(), shards)
    }

    /// The payment, when the stream is one's.
    pub fn payment(&self) -> Option<&PaymentId> {
        match self {
            Self::Payment(id) => Some(id),
            Self::QuoteRequest(_) => None,
        }
    }

    /// The batch, when the stream is one's.
    pub fn quote_request(&self) -> Option<&QuoteRequestId> {
        match self {
            Self::QuoteRequest(id) => Some(id),
            Self::Payment(_) => None,
        }
    }
}

impl FromStr for PaymentId {
    type Err = InvalidPaymentId;

    fn from_str(text: &str) -> Result<Self, InvalidPaymentId> {
        if is_derived(PAYMENT_PREFIX, text) { Ok(Self(text.to_owned())) } else { Err(InvalidPaymentId) }
    }
}

impl FromStr for QuoteRequestId {
    type Err = InvalidQuoteRequestId;

    fn from_str(text: &str) -> Result<Self, InvalidQuoteRequestId> {
        if is_derived(Self::PREFIX, text) { Ok(Self(text.to_owned())) } else { Err(InvalidQuoteRequestId) }
    }
}

impl FromStr for StreamId {
    type Err = InvalidStreamId;

    fn from_str(text: &str) -> Result<Self, InvalidStreamId> {
        let payment = text.parse().map(Self::Payment).ok();
        payment.or_else(|| text.parse().map(Self::QuoteRequest).ok()).ok_or(InvalidStreamId)
    }
}

impl From<PaymentId> for StreamId {
    fn from(id: PaymentId) -> Self {
        Self::Payment(id)
    }
}

impl From<&PaymentId> for StreamId {
    fn from(id: &PaymentId) -> Self {
        Self::Payment(id.clone())
    }
}

impl From<QuoteRequestId> for StreamId {
    fn from(id: QuoteRequestId) -> Self {
        Self::QuoteRequest(id)
    }
}

impl From<&QuoteRequestId> for StreamId {
    fn from(id: &QuoteRequestId) -> Self {
        Self::QuoteRequest(id.clone())
    }
}

/// An id is shown, debugged and stored as its text.
macro_rules! as_text {
    ($($id:ty),+) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::parsed(deserializer)
            }
        }
    )+};
}

as_text!(PaymentId, QuoteRequestId, StreamId);

/// Id of one commit: what tells an append of mine from an append of another after a lost acknowledgement.
///
/// Random, 128 bits, base32; sent as `Nats-Msg-Id`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CommitId(String);

impl CommitId {
    /// A new random id.
    pub fn random() -> Self {
        Self(base32(&rand::random::<[u8; 16]>()))
    }

    /// A commit id read back from a stored message.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A 32-byte hash, written as 64 lower-case hex digits with `0x`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash32(pub [u8; 32]);

/// The text is not a 32-byte hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be 0x followed by 64 hex digits")]
pub struct InvalidHash;

impl Hash32 {
    /// All zeros: "no quote yet" in a deposit witness, and the predecessor of a payment's first message.
    pub const ZERO: Self = Self([0; 32]);

    /// SHA-256 of `bytes`.
    pub fn sha256(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Keccak-256 of `bytes`.
    pub fn keccak256(bytes: impl AsRef<[u8]>) -> Self {
        Self(Keccak256::digest(bytes).into())
    }
}

impl FromStr for Hash32 {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digits = text.strip_prefix("0x").ok_or(InvalidHash)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| InvalidHash)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; 64];
        // There are two digits a byte, and they are ASCII.
        hex::encode_to_slice(self.0, &mut digits).map_err(|_| fmt::Error)?;
        f.write_str("0x")?;
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash32 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash32 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::parsed(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cannot_slide_into_each_other() {
        assert_ne!(PaymentId::derive("ab", "c"), PaymentId::derive("a", "bc"));
    }

    #[test]
    fn id_of_a_known_key_never_changes() {
        // A change of this value would orphan every payment already accepted.
        assert_eq!(
            PaymentId::derive("did:example:payer", "order-1").as_str(),
            "pay_5u3uedbzhw2omp4cgvym2jxmn6sy4wwjrcqibir5cbnvh4dma6vq",
        );
    }

    #[test]
    fn a_batch_and_a_payment_of_one_key_are_apart() {
        let (payment, batch) = (PaymentId::derive("a", "b"), QuoteRequestId::derive("a", "b"));
        assert_ne!(payment.as_str()[4..], batch.as_str()[4..]);
        // A change of this value would orphan every batch already opened.
        assert_eq!(batch.as_str(), "qrq_chmdpw5z72pl5w4h7qw75lotvduk2lcl3dgg2eqx4qdualfiqx7q");
        for (text, id) in [(payment.as_str(), StreamId::from(&payment)), (batch.as_str(), StreamId::from(&batch))] {
            assert_eq!(text.parse(), Ok(id.clone()));
            assert_eq!((id.as_str(), id.shard(8)), (text, shard_of(text, 8)));
        }
        assert!(batch.as_str().parse::<PaymentId>().is_err() && payment.as_str().parse::<QuoteRequestId>().is_err());
        assert_eq!(batch.as_str().replace("qrq_", "quo_").parse::<StreamId>(), Err(InvalidStreamId));
    }

    #[test]
    fn foreign_texts_are_refused() {
        let id = PaymentId::derive("a", "b").to_string();
        for bad in ["", "pay_", &id[4..], &id.to_uppercase(), &format!("{id}a"), &id.replace("pay_", "quo_")] {
            assert_eq!(bad.parse::<PaymentId>(), Err(InvalidPaymentId), "{bad}");
        }
    }
}
