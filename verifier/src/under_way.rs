//! The bulkhead of each verifier that is asked: so many asks of one may be under way, and one more is not made, so that a verifier
//! which answers nobody costs next to nothing.
//!
//! Only verifiers with an ask under way are remembered, since endpoints of payments are of strangers' choice.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The asks under way, by the verifiers' origins. Cheap to clone.
#[derive(Clone)]
pub(super) struct UnderWay {
    /// Most of one verifier.
    asks_max: usize,
    asks: Arc<Mutex<HashMap<String, usize>>>,
}

impl UnderWay {
    /// Nothing is under way; most so many asks of one verifier will be.
    pub(super) fn new(asks_max: usize) -> Self {
        Self { asks_max, asks: Arc::default() }
    }

    /// One more ask of the verifier at `origin`; `None` when as many are under way as may be.
    pub(super) fn enter(&self, origin: &str) -> Option<Place> {
        let mut asks = self.asks();
        match asks.get_mut(origin) {
            Some(count) if *count >= self.asks_max => return None,
            Some(count) => *count += 1,
            None => drop(asks.insert(origin.to_owned(), 1)),
        }
        Some(Place { under_way: self.clone(), origin: origin.to_owned() })
    }

    fn asks(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // A map is whole after every insertion and removal.
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An ask that is under way, until it is dropped.
pub(super) struct Place {
    under_way: UnderWay,
    origin: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut asks = self.under_way.asks();
        match asks.get_mut(&self.origin) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(asks.remove(&self.origin)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verifier_has_so_many_and_is_forgotten_with_the_last() {
        let under_way = UnderWay::new(2);
        let first = under_way.enter("a").unwrap();
        let others = [under_way.enter("a").unwrap(), under_way.enter("b").unwrap()];
        assert!(under_way.enter("a").is_none());
        drop(first);
        assert!(under_way.enter("a").is_some());
        drop(others);
        assert!(under_way.asks().is_empty());
    }
}
