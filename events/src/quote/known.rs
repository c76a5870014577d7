//! The cache of verified quotes.
//!
//! The same document is read whenever its payment's state is built from the journal, and verifying it costs more than all
//! the rest of that. Whether a document holds depends on its text alone, so the answer can be kept.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use super::{Error, SignedQuote};
use crate::Hash32;

/// What the quotes that are kept may take, in bytes: some 2,000 of the usual size. Settlers make their documents as large as
/// they like, so their number alone would bound nothing.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// What is counted of a quote beside its document: what was read out of it, and its place.
const QUOTE_BYTES: usize = 1_536;

/// By the SHA-256 of the document as it came, in two generations: when the young one is full, the old one is forgotten
/// and the young one becomes the old.
#[derive(Default)]
struct Known {
    young: HashMap<Hash32, Arc<SignedQuote>>,
    young_bytes: usize,
    old: HashMap<Hash32, Arc<SignedQuote>>,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// The quote that was verified out of this text before, or what `verify` finds. A refusal is not kept.
pub(super) fn or_else(
    document: &str,
    verify: impl FnOnce() -> Result<SignedQuote, Error>,
) -> Result<SignedQuote, Error> {
    let key = Hash32::sha256(document);
    let found = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).find(key);
    if let Some(known) = found {
        return Ok(SignedQuote::clone(&known));
    }
    let signed = verify()?;
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).keep(key, Arc::new(signed.clone()));
    Ok(signed)
}

impl Known {
    fn find(&mut self, key: Hash32) -> Option<Arc<SignedQuote>> {
        if let Some(known) = self.young.get(&key) {
            return Some(Arc::clone(known));
        }
        let known = self.old.remove(&key)?;
        self.keep(key, Arc::clone(&known));
        Some(known)
    }

    fn keep(&mut self, key: Hash32, signed: Arc<SignedQuote>) {
        let bytes = bytes_of(&signed);
        if self.young_bytes + bytes > KEPT_BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        // Two that verified the same at once may both keep it.
        if self.young.insert(key, signed).is_none() {
            self.young_bytes += bytes;
        }
    }
}

/// What a quote takes. Its content was parsed out of the document, so that takes no more than the document once more.
fn bytes_of(signed: &SignedQuote) -> usize {
    2 * signed.document().len() + QUOTE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Hash32 {
        Hash32::sha256(n.to_string())
    }

    #[test]
    fn what_is_used_is_kept_and_no_more_than_the_bound() {
        let quote = super::super::tests::signed();
        let bytes = bytes_of(&quote);
        let mut known = Known::default();
        let last = 4 * KEPT_BYTES_MAX / bytes;
        for n in 0..=last {
            known.keep(key(n), Arc::new(quote.clone()));
            assert!(n == 0 || known.find(key(0)).is_some(), "{n}");
            assert_eq!(known.young_bytes, known.young.len() * bytes);
            assert!((known.young.len() + known.old.len()) * bytes <= KEPT_BYTES_MAX);
        }
        assert!(known.find(key(1)).is_none() && known.find(key(last)).is_some());
    }

    #[test]
    fn large_documents_are_fewer() {
        let mut quote = super::super::tests::signed();
        let blanks = crate::quote::DOCUMENT_BYTES_MAX - quote.document.len();
        quote.document.push_str(&" ".repeat(blanks));
        let mut known = Known::default();
        for n in 0..KEPT_BYTES_MAX / blanks {
            known.keep(key(n), Arc::new(quote.clone()));
            known.keep(key(n), Arc::new(quote.clone()));
            assert!((known.young.len() + known.old.len()) * bytes_of(&quote) <= KEPT_BYTES_MAX, "{n}");
        }
        assert!(known.young.len() + known.old.len() > 16);
    }
}
