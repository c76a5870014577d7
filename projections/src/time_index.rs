//! Time index: all payments of a shard in the order of their submission.
//!
//! A key is the prefix and the payment's place; it has no value. It follows from a payment's first commit, so it is
//! written with the first view of its payment and never again.

use crate::place::Place;

/// What the keys of the index begin with.
pub(crate) const TIME_PREFIX: u8 = b't';

/// The key of the payment whose place this is.
pub(crate) fn key(place: &Place) -> Vec<u8> {
    place.key(&[TIME_PREFIX])
}
