//! Search index: which payments have a text as one of their ids or hashes.
//!
//! A key is the prefix, the kind of the text, the normal form of the text, cut off where it is long, and the payment's
//! place; it has no value. The keys are a function of the view and change with it. What nobody can choose, as hashes,
//! is of another kind than what somebody chose, so that whoever chooses the text of another's hash is not found in its
//! stead.
//!
//! Payment ids need no key, for views lie under them; source accounts and originators are in the index of owners.

use std::{borrow::Cow, ops::Range};

use events::Hash32;

use crate::{
    place::Place,
    view::{PaymentView, Transaction},
};

/// What the keys of the index begin with.
pub(crate) const SEARCH_PREFIX: u8 = b's';
/// Fewest characters of a text that is searched for, and of one that is in the index, without what all of its kind
/// begin with (`0x`, `pay_`, `qrq_`).
pub const SEARCH_CHARS_MIN: usize = 6;
/// Bytes of a hash in a key. Of the hashes of 10 million payments a few share their first 12 digits, and who wants to
/// be found with another makes 2^48 transactions for each.
const HASH_BYTES_MAX: usize = 12;
/// Bytes of a text in a key that somebody chose. Behind a longer one stand [`CUT`] and this many bytes of the hash of all of it, so
/// that whoever chooses others that are the same so far does not hide one that is asked for whole.
const CHOSEN_BYTES_MAX: usize = 64;
const DIGEST_BYTES: usize = 8;
/// Behind a text that was cut off: a byte that is in no text, and lies before the end of its range.
const CUT: u8 = 0xfe;

/// Kinds of texts that are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A transaction's hash, or that of a quote that the escrow is or was reserved for, in hex with or without `0x`, or a transaction's signature in
    /// Base58.
    Hash,
    /// The id of the batch that the payment was awarded from.
    Batch,
    /// The request id, which the payer chose.
    RequestId,
    /// The quote's id, which the settler chose.
    QuoteId,
}

impl Kind {
    /// All of them, those first that nobody can choose.
    pub(crate) const ALL: [Self; 4] = [Self::Hash, Self::Batch, Self::RequestId, Self::QuoteId];

    fn tag(self) -> u8 {
        match self {
            Self::Hash => b'h',
            Self::Batch => b'b',
            Self::RequestId => b'r',
            Self::QuoteId => b'q',
        }
    }

    /// Whether somebody chooses the texts.
    fn is_chosen(self) -> bool {
        matches!(self, Self::RequestId | Self::QuoteId)
    }

    fn bytes_max(self) -> usize {
        match self {
            Self::Hash | Self::Batch => HASH_BYTES_MAX,
            Self::RequestId | Self::QuoteId => CHOSEN_BYTES_MAX,
        }
    }

    /// The form of a text under which it is found in either case, and without what all texts of its kind begin with;
    /// `None` for one that is too short.
    fn normal(self, text: &str) -> Option<String> {
        let common = match self {
            Self::Hash => "0x",
            Self::Batch => "qrq_",
            Self::RequestId | Self::QuoteId => "",
        };
        let has_common = text.get(..common.len()).is_some_and(|head| head.eq_ignore_ascii_case(common));
        let own = if has_common { &text[common.len()..] } else { text };
        own.chars().nth(SEARCH_CHARS_MIN - 1).map(|_| own.to_ascii_lowercase())
    }

    /// The bytes that the keys of `text` begin with; `None` for a text that is too short.
    fn head(self, text: &str) -> Option<Vec<u8>> {
        let normal = self.normal(text)?;
        let cut = &normal.as_bytes()[..normal.len().min(self.bytes_max())];
        let mut head = [&[SEARCH_PREFIX, self.tag()], cut].concat();
        if self.is_chosen() && cut.len() < normal.len() {
            head.push(CUT);
            head.extend_from_slice(&Hash32::sha256(&normal).0[..DIGEST_BYTES]);
        }
        Some(head)
    }

    /// The keys of texts that are `text` as far as keys tell, and those of texts that go on behind it; `None` for a
    /// text that is too short.
    pub(crate) fn ranges(self, text: &str) -> Option<[Range<Vec<u8>>; 2]> {
        let head = self.head(text)?;
        let cut_off = 2 + self.bytes_max();
        let begun = if head.get(cut_off) == Some(&CUT) { &head[..cut_off] } else { &head[..] };
        // Behind a text comes a place. Its first byte, the top byte of milliseconds since 1970, stays 0 for two million years, and neither
        // 0 nor 255 is in a text.
        let behind = |head: &[u8], next: u8| [head, &[next]].concat();
        let longer = if begun.len() < head.len() { CUT } else { 1 };
        Some([behind(&head, 0)..behind(&head, 1), behind(begun, longer)..behind(begun, u8::MAX)])
    }

    /// Whether what a payment has, `own`, begins with what is asked for. Base58 tells capitals from small letters.
    fn begins(self, own: &str, asked: &str) -> bool {
        if self == Self::Hash && !is_hex(own) {
            return own.starts_with(asked);
        }
        self.normal(own).zip(self.normal(asked)).is_some_and(|(own, asked)| own.starts_with(&asked))
    }

    /// The texts of this kind that a payment has.
    fn texts(self, view: &PaymentView) -> Vec<Cow<'_, str>> {
        let hash = |shown: &Transaction| Cow::Owned(shown.transaction_hash.clone());
        let quote = view.quote.as_ref();
        match self {
            Self::Hash => {
                let PaymentView { deposit, reservation, reassignment, fulfillment, release, refund, .. } = view;
                let shown = [deposit, reservation, reassignment, fulfillment, release, refund];
                let shown = shown.into_iter().flatten().map(hash);
                let own = view.own_deposit.iter().map(|own| Cow::Borrowed(own.as_str()));
                let lapsed = view.lapsed.iter().map(|lapsed| lapsed.quote_hash);
                let quotes = quote.map(|quote| quote.quote_hash).into_iter().chain(lapsed);
                shown.chain(own).chain(quotes.map(|hash| Cow::Owned(hash.to_string()))).collect()
            }
            Self::Batch => view.quote_request_id.iter().map(|id| Cow::Borrowed(id.as_str())).collect(),
            Self::RequestId => vec![Cow::Borrowed(view.request_id.as_str())],
            Self::QuoteId => {
                let lapsed = view.lapsed.iter().map(|lapsed| Cow::Borrowed(lapsed.quote_id.as_str()));
                quote.map(|quote| Cow::Borrowed(quote.quote_id.as_str())).into_iter().chain(lapsed).collect()
            }
        }
    }

    /// Whether one of the payment's texts of this kind begins with `asked`.
    pub(crate) fn matches(self, view: &PaymentView, asked: &str) -> bool {
        self.texts(view).iter().any(|own| self.begins(own, asked))
    }
}

fn is_hex(text: &str) -> bool {
    text.strip_prefix("0x").unwrap_or(text).bytes().all(|digit| digit.is_ascii_hexdigit())
}

/// The keys of a payment, each once, in order.
pub(crate) fn keys(view: &PaymentView) -> Vec<Vec<u8>> {
    let place = Place::of(view);
    let heads = Kind::ALL.into_iter().flat_map(|kind| {
        let texts = kind.texts(view);
        texts.into_iter().filter_map(move |text| kind.head(&text))
    });
    let mut keys: Vec<_> = heads.map(|head| place.key(&head)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
