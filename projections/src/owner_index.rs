//! Owner index: which payments a source account or an originator has, in the order of their submission.
//!
//! A key is the prefix, the first 16 bytes of the SHA-256 of the owner's text and the payment's place; it has no value.
//! All of it follows from a payment's first commit, so a key is written with the first view of its payment and never
//! again. Who pays in his own name is one owner, who pays in the name of a DID two.

use std::ops::Range;

use events::{Hash32, time::Timestamp};

use crate::{
    place::{self, Place},
    view::PaymentView,
};

/// What the keys of the index begin with.
pub(crate) const OWNER_PREFIX: u8 = b'i';
/// Bytes of an owner's hash. To find another text with one that is taken costs 2^128 hashes; what is shown is compared
/// with the owner's text besides.
const OWNER_BYTES: usize = 16;

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

fn head(owner: &str) -> Vec<u8> {
    let mut head = vec![OWNER_PREFIX];
    head.extend_from_slice(&Hash32::sha256(owner).0[..OWNER_BYTES]);
    head
}

/// The keys of a payment, whose place this is.
pub(crate) fn keys(view: &PaymentView, place: &Place) -> Vec<Vec<u8>> {
    let payer = view.source.account().originator();
    let mut keys = vec![place.key(&head(&payer))];
    if view.originator != payer {
        keys.push(place.key(&head(&view.originator)));
    }
    keys
}

impl OwnedSlice {
    /// From the first key on, and before the last.
    pub(crate) fn keys(&self) -> Range<Vec<u8>> {
        place::range(&head(&self.owner), self.before.as_ref(), self.from, self.until)
    }
}
