//! Known terms: preimages of what escrows store, so that a payment's terms are looked for once.
//!
//! Whoever brings terms is not trusted: they are kept under their own hash, and found by the hash that a contract stores.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use alloy::primitives::B256;

use crate::record::EscrowTerms;

/// Most terms that are kept, those that were used last; some eight megabytes.
const TERMS_MAX: usize = 16_384;

/// Terms by their commitment.
#[derive(Debug, Default)]
pub struct KnownTerms(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// With the number of their last use.
    terms: HashMap<B256, (u64, EscrowTerms)>,
    /// By that number.
    uses: BTreeMap<u64, B256>,
    /// Uses so far.
    count: u64,
}

impl KnownTerms {
    /// Keeps `terms`.
    pub fn keep(&self, terms: EscrowTerms) {
        let commitment = terms.commitment();
        let mut known = self.known();
        known.take(commitment);
        known.put(commitment, terms);
        while known.terms.len() > TERMS_MAX
            && let Some((_, oldest)) = known.uses.pop_first()
        {
            known.terms.remove(&oldest);
        }
    }

    /// The terms with the hash `commitment`, where they are known.
    pub fn get(&self, commitment: B256) -> Option<EscrowTerms> {
        let mut known = self.known();
        let terms = known.take(commitment)?;
        known.put(commitment, terms.clone());
        Some(terms)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No holder of the lock leaves it half changed where it could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn take(&mut self, commitment: B256) -> Option<EscrowTerms> {
        let (used, terms) = self.terms.remove(&commitment)?;
        self.uses.remove(&used);
        Some(terms)
    }

    fn put(&mut self, commitment: B256, terms: EscrowTerms) {
        self.count += 1;
        self.terms.insert(commitment, (self.count, terms));
        self.uses.insert(self.count, commitment);
    }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::U256;

    use super::*;

    fn terms(number: usize) -> EscrowTerms {
        EscrowTerms::unknown(B256::from(U256::from(number)))
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten_first() {
        let known = KnownTerms::default();
        for number in 0..TERMS_MAX {
            known.keep(terms(number));
        }
        // Used again, by a look and by whoever brings them.
        assert_eq!(known.get(terms(0).commitment()), Some(terms(0)));
        known.keep(terms(1));
        for number in [TERMS_MAX, TERMS_MAX + 1] {
            known.keep(terms(number));
        }
        for number in [2, 3] {
            assert_eq!(known.get(terms(number).commitment()), None, "{number}");
        }
        for number in [0, 1, 4, TERMS_MAX, TERMS_MAX + 1] {
            assert_eq!(known.get(terms(number).commitment()), Some(terms(number)), "{number}");
        }
    }
}
