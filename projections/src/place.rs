//! Places of payments in the order of their submission. Every key of an index ends with one.

use std::ops::Range;

use events::{PaymentId, time::Timestamp};

use crate::{fault::Fault, view::PaymentView};

/// What every payment's id begins with.
pub(crate) const ID_PREFIX: &str = "pay_";
/// Characters of an id behind that, of base32.
pub(crate) const DIGEST_CHARS: usize = 52;
/// Bytes of these in a key, five bits each.
const DIGEST_BYTES: usize = (5 * DIGEST_CHARS).div_ceil(8);
/// Bytes of a place in a key.
const PLACE_BYTES: usize = 8 + DIGEST_BYTES;

/// The place of a payment among others, which are in the order of their submission and, in one millisecond, of their
/// ids. It never changes, so a list that was read up to one goes on behind it whatever was accepted meanwhile.
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

    /// The key that begins with `head`.
    pub(crate) fn key(&self, head: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(head.len() + PLACE_BYTES);
        key.extend_from_slice(head);
        key.extend_from_slice(&self.submitted_ms.to_be_bytes());
        key.extend_from_slice(&packed(&self.payment_id));
        key
    }

    /// The place that a key ends with.
    pub(crate) fn of_key(key: &[u8]) -> Result<Self, Fault> {
        let damaged = || Fault::Damaged("a key of an index has another form".to_owned());
        let place = key.last_chunk::<PLACE_BYTES>().ok_or_else(damaged)?;
        let (submitted_ms, id) = place.split_first_chunk().ok_or_else(damaged)?;
        let payment_id = unpacked(id).parse().map_err(|_| damaged())?;
        Ok(Self { submitted_ms: u64::from_be_bytes(*submitted_ms), payment_id })
    }
}

/// The keys that begin with `head` of the payments before `before`, submitted at `from` or later and earlier than
/// `until`: from the first one on, and before the last.
pub(crate) fn range(
    head: &[u8],
    before: Option<&Place>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Range<Vec<u8>> {
    let at = |submitted_ms: u64| [head, &submitted_ms.to_be_bytes()].concat();
    let first = at(from.map_or(0, first_millisecond));
    let end = at(until.map_or(u64::MAX, first_millisecond));
    let end = match before {
        Some(place) => place.key(head).min(end),
        None => end,
    };
    // sled takes no range that ends before it begins.
    first.clone()..end.max(first)
}

/// The digest of an id. What is packed is in the order of what is not, and any id is unpacked as it was.
fn packed(payment_id: &PaymentId) -> [u8; DIGEST_BYTES] {
    let mut bytes = [0; DIGEST_BYTES];
    let digest = payment_id.as_str().bytes().skip(ID_PREFIX.len());
    for (index, digit) in digest.take(DIGEST_CHARS).enumerate() {
        // Digits are before letters in ASCII and behind them in base32.
        let value = if digit.is_ascii_digit() { digit - b'2' } else { digit - b'a' + 6 };
        let [high, low] = (u16::from(value) << (11 - 5 * index % 8)).to_be_bytes();
        bytes[5 * index / 8] |= high;
        if let Some(next) = bytes.get_mut(5 * index / 8 + 1) {
            *next |= low;
        }
    }
    bytes
}

fn unpacked(bytes: &[u8]) -> String {
    let digit = |index: usize| {
        let [high, low] = [0, 1].map(|next| bytes.get(5 * index / 8 + next).copied().unwrap_or(0));
        let value = (u16::from_be_bytes([high, low]) >> (11 - 5 * index % 8)) as u8 & 0x1f;
        char::from(if value < 6 { b'2' + value } else { b'a' + value - 6 })
    };
    ID_PREFIX.chars().chain((0..DIGEST_CHARS).map(digit)).collect()
}

fn milliseconds(time: Timestamp) -> u64 {
    u64::try_from(time.timestamp_millis()).unwrap_or(0)
}

/// The first millisecond that is not before `time`: by it a time bounds a list.
pub fn first_millisecond(time: Timestamp) -> u64 {
    milliseconds(time) + u64::from(!time.timestamp_subsec_nanos().is_multiple_of(1_000_000))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_key_ends_with_the_place_that_it_was_made_of(
            submitted_ms in any::<u64>(),
            id in "pay_[a-z2-7]{52}",
            head in "[ -~]{0,70}",
        ) {
            let place = Place { submitted_ms, payment_id: id.parse().unwrap() };
            let key = place.key(head.as_bytes());
            prop_assert_eq!(key.len(), head.len() + PLACE_BYTES);
            prop_assert_eq!(Place::of_key(&key), Ok(place));
        }

        #[test]
        fn keys_are_in_the_order_of_their_places(
            times in prop::array::uniform2(0..3u64),
            ids in prop::array::uniform2("pay_[ab27]{52}"),
        ) {
            let place = |index: usize| Place { submitted_ms: times[index], payment_id: ids[index].parse().unwrap() };
            prop_assert_eq!(place(0).key(b"t").cmp(&place(1).key(b"t")), place(0).cmp(&place(1)));
        }
    }

    #[test]
    fn what_is_shorter_than_a_place_is_damage() {
        for length in [0, 1, PLACE_BYTES - 1] {
            assert!(matches!(Place::of_key(&vec![b't'; length]), Err(Fault::Damaged(_))));
        }
    }
}
