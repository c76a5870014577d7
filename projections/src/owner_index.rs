//! Owner index: which payments a source account or an originator has, in the order of their submission.
//!
//! A key is the prefix, the first 16 bytes of the SHA-256 of the owner's text, the time of the submission in milliseconds
//! and the payment's id; it has no value. All of it follows from a payment's first commit, so a key is written with the
//! first view of its payment and never again. Who pays in his own name is one owner, who pays in the name of a DID two.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use events::{Hash32, PaymentId, time::Timestamp};

use crate::{fault::Fault, view::PaymentView};

/// What the keys of the index begin with.
pub(crate) const OWNER_PREFIX: u8 = b'i';
/// Bytes of an owner's hash. To find another text with one that is taken costs 2^128 hashes; what is shown is compared with
/// the owner's text besides.
const OWNER_BYTES: usize = 16;
/// Bytes before a payment's id.
pub(crate) const HEAD_BYTES: usize = 1 + OWNER_BYTES + 8;

/// The place of a payment among all of its owner, which are in the order of their submission and, in one millisecond, of
/// their ids. It never changes, so a list that was read up to one goes on behind it whatever was accepted meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// When the payment was submitted, UNIX milliseconds.
    pub submitted_ms: u64,
    /// The payment.
    pub payment_id: PaymentId,
}

impl Place {
    /// That of a payment.
    pub fn of(view: &PaymentView) -> Self {
        Self { submitted_ms: milliseconds(view.submitted_at), payment_id: view.payment_id.clone() }
    }
}

/// Which payments of an owner are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedSlice {
    /// The owner: an originator as it is stored, which an account is too ([`events::Account::originator`]).
    pub owner: String,
    /// Those before this one, which is where an earlier page ended.
    pub before: Option<Place>,
    /// Those submitted then or later.
    pub from: Option<Timestamp>,
    /// Those submitted earlier.
    pub until: Option<Timestamp>,
}

impl PaymentView {
    /// Whether the payment is that of `owner`: its source account, or its originator.
    pub fn belongs_to(&self, owner: &str) -> bool {
        self.originator == owner || self.source.account().originator() == owner
    }
}

fn milliseconds(time: Timestamp) -> u64 {
    u64::try_from(time.timestamp_millis()).unwrap_or(0)
}

fn head(owner: &str, submitted_ms: u64) -> Vec<u8> {
    let mut key = vec![OWNER_PREFIX];
    key.extend_from_slice(&Hash32::sha256(owner).0[..OWNER_BYTES]);
    key.extend_from_slice(&submitted_ms.to_be_bytes());
    key
}

fn key(owner: &str, place: &Place) -> Vec<u8> {
    let mut key = head(owner, place.submitted_ms);
    key.extend_from_slice(place.payment_id.as_str().as_bytes());
    key
}

/// The keys of a payment.
pub(crate) fn keys(view: &PaymentView) -> Vec<Vec<u8>> {
    let (place, payer) = (Place::of(view), view.source.account().originator());
    let mut keys = vec![key(&payer, &place)];
    if view.originator != payer {
        keys.push(key(&view.originator, &place));
    }
    keys
}

impl OwnedSlice {
    /// From the first key on, and before the last.
    pub(crate) fn keys(&self) -> Range<Vec<u8>> {
        let first = head(&self.owner, self.from.map_or(0, ceiling));
        let end = head(&self.owner, self.until.map_or(u64::MAX, ceiling));
        let end = match &self.before {
            Some(place) => key(&self.owner, place).min(end),
            None => end,
        };
        // sled takes no range that ends before it begins.
        first.clone()..end.max(first)
    }
}

/// The first millisecond that is not before `time`.
fn ceiling(time: Timestamp) -> u64 {
    milliseconds(time) + u64::from(!time.timestamp_subsec_nanos().is_multiple_of(1_000_000))
}

/// The place that a key is of.
pub(crate) fn place_of(key: &[u8]) -> Result<Place, Fault> {
    let damaged = || Fault::Damaged("a key of the owner index has another form".to_owned());
    let (head, id) = key.split_at_checked(HEAD_BYTES).ok_or_else(damaged)?;
    let submitted_ms = head[HEAD_BYTES - 8..].try_into().map(u64::from_be_bytes).map_err(|_| damaged())?;
    let payment_id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok()).ok_or_else(damaged)?;
    Ok(Place { submitted_ms, payment_id })
}

/// A sum over keys in any order, by which those that are there are compared with those that should be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeySum {
    keys: u64,
    hashes: u64,
}

impl KeySum {
    pub(crate) fn add(&mut self, key: &[u8]) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.keys += 1;
        self.hashes = self.hashes.wrapping_add(hasher.finish());
    }
}
