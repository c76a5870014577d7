//! Permits under way: how many deposits by Permit2 of one payer a gateway has on their way at a time. A payer can take its allowance back
//! while they are, at the cost of one transaction, and all of them fail in their blocks (ADR 88, 156).
//!
//! It is counted in memory, at each gateway for itself: to journal it would cost two stored messages for every honest payment.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use events::{Account, PaymentId};

/// Most deposits of one payer that are under way to a block; others wait.
pub(super) const PERMITS_UNDER_WAY_MAX: usize = 16;
/// How long a deposit is taken to be under way, unless its end is seen.
const UNDER_WAY_FOR: Duration = Duration::from_secs(3_600);

/// Deposits by Permit2, as this process has seen them.
#[derive(Debug, Default)]
pub(super) struct PermitsUnderWay(Mutex<HashMap<Account, HashMap<PaymentId, Instant>>>);

impl PermitsUnderWay {
    /// Whether the payment's deposit is one of those that are under way, and from now on it is.
    pub fn enter(&self, payer: &Account, payment_id: &PaymentId) -> bool {
        self.enter_at(payer, payment_id, Instant::now())
    }

    fn enter_at(&self, payer: &Account, payment_id: &PaymentId, now: Instant) -> bool {
        // Nothing panics between two changes that belong together.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(payer.clone()).or_default();
        own.retain(|_, since| now.saturating_duration_since(*since) < UNDER_WAY_FOR);
        if own.len() >= PERMITS_UNDER_WAY_MAX && !own.contains_key(payment_id) {
            return false;
        }
        own.insert(payment_id.clone(), now);
        true
    }

    /// The deposit was seen in a block, or its end, or nothing was made of it.
    pub fn leave(&self, payer: &Account, payment_id: &PaymentId) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = all.get_mut(payer) else { return };
        own.remove(payment_id);
        if own.is_empty() {
            all.remove(payer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_one_payer_are_under_way_until_their_end_is_seen_or_long_past() {
        let payer = |byte| Account::from_bytes(events::Family::Tron, &[byte; 20]).unwrap();
        let payment = |n: usize| PaymentId::derive("payer", &n.to_string());
        let (permits, now) = (PermitsUnderWay::default(), Instant::now());
        for n in 0..PERMITS_UNDER_WAY_MAX {
            assert!(permits.enter_at(&payer(1), &payment(n), now));
        }
        let one_more = payment(PERMITS_UNDER_WAY_MAX);
        assert!(!permits.enter_at(&payer(1), &one_more, now));
        assert!(permits.enter_at(&payer(1), &payment(0), now), "it is one of them");
        assert!(permits.enter_at(&payer(2), &one_more, now), "another payer's are its own");
        permits.leave(&payer(1), &payment(3));
        assert!(permits.enter_at(&payer(1), &one_more, now));
        assert!(!permits.enter_at(&payer(1), &payment(3), now));
        assert!(permits.enter_at(&payer(1), &payment(3), now + UNDER_WAY_FOR));
    }
}
