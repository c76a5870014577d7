//! Turns: of several payments that one transaction serves, one sends it and the others wait, up to a limit. They are known to this process
//! alone.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use events::PaymentId;

/// Whose turn it is, by what it serves.
#[derive(Debug)]
pub(crate) struct Turns<K> {
    longest: Duration,
    taken: Mutex<HashMap<K, (PaymentId, Instant)>>,
}

impl<K: Eq + Hash> Turns<K> {
    /// Turns that last so long at the most.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, taken: Mutex::default() }
    }

    /// Whether it is the payment's turn, from now on or still.
    pub(crate) fn take(&self, key: K, payment_id: &PaymentId, now: Instant) -> bool {
        // Nobody leaves it half changed.
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, (_, since)| now.saturating_duration_since(*since) < self.longest);
        let (holder, _) = taken.entry(key).or_insert_with(|| (payment_id.clone(), now));
        holder == payment_id
    }

    /// The payment's turn is over, if it is its.
    pub(crate) fn end(&self, key: &K, payment_id: &PaymentId) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.get(key).is_some_and(|(holder, _)| holder == payment_id) {
            taken.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_its_turn_until_it_ends_or_takes_too_long() {
        let (turns, start) = (Turns::new(Duration::from_secs(60)), Instant::now());
        let [one, other] = ["one", "other"].map(|id| PaymentId::derive("eip155:0x00", id));
        assert!(turns.take(1, &one, start) && turns.take(1, &one, start), "still its own");
        assert!(!turns.take(1, &other, start) && turns.take(2, &other, start));
        turns.end(&1, &other);
        assert!(!turns.take(1, &other, start), "not the other's to end");
        turns.end(&1, &one);
        assert!(turns.take(1, &other, start));
        assert!(!turns.take(1, &one, start + Duration::from_secs(59)));
        assert!(turns.take(1, &one, start + Duration::from_secs(60)));
    }
}
