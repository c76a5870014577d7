//! Quotes that were verified before.
//!
//! The same document is read whenever its payment's state is built from the journal, and verifying it costs more than all
//! the rest of that. Whether a document holds depends on its text alone, so the answer can be kept.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use super::{Error, SignedQuote};
use crate::Hash32;

/// Quotes that are kept: with documents of the usual size, some 8 MiB.
const KEPT_MAX: usize = 2_048;

/// By the SHA-256 of the document as it came, in two generations: when the young one is full, the old one is forgotten
/// and the young one becomes the old.
#[derive(Default)]
struct Known {
    young: HashMap<Hash32, Arc<SignedQuote>>,
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
        if self.young.len() >= KEPT_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, signed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_kept_and_no_more_than_the_bound() {
        let quote = super::super::tests::signed();
        let key = |n: usize| Hash32::sha256(n.to_string());
        let mut known = Known::default();
        for n in 0..10 * KEPT_MAX {
            known.keep(key(n), Arc::new(quote.clone()));
            assert!(n == 0 || known.find(key(0)).is_some(), "{n}");
            assert!(known.young.len() + known.old.len() <= KEPT_MAX);
        }
        assert!(known.find(key(1)).is_none() && known.find(key(10 * KEPT_MAX - 1)).is_some());
    }
}
