//! The plan of a run on chains of several families: source and destination of its payments may each be EVM, Solana or Tron.

use events::Family;

use super::{Adversities, ChainPlan, PaymentPlan, Plan};
use crate::random::RandomSource;

/// Of a thousand seeds, so many run on chains of several families.
const SHARE: u32 = 100;
/// The two chains of a run. Payments go in both directions.
const PAIRS: [(Family, Family); 10] = [
    (Family::Evm, Family::Tron),
    (Family::Evm, Family::Tron),
    (Family::Tron, Family::Evm),
    (Family::Tron, Family::Evm),
    (Family::Tron, Family::Tron),
    (Family::Evm, Family::Solana),
    (Family::Solana, Family::Evm),
    (Family::Solana, Family::Tron),
    (Family::Tron, Family::Solana),
    (Family::Solana, Family::Solana),
];

/// Whether the run of `seed` is on chains of several families.
pub(super) fn are_in(seed: u64) -> bool {
    RandomSource::new(seed, "share of families").chance(SHARE)
}

impl Plan {
    /// The plan of `seed` on chains of several families for certain, whatever other seeds do.
    pub fn mixed(seed: u64) -> Self {
        let pair = RandomSource::new(seed, "families").pick(&PAIRS);
        Self::whole(seed, Some(pair))
    }

    /// The plan of `seed` on chains of these families.
    pub fn on(seed: u64, pair: (Family, Family)) -> Self {
        Self::whole(seed, Some(pair))
    }

    /// The plan of `seed` on chains of these families, they and their nodes at their worst, and with many payments at once.
    pub fn storm_on(seed: u64, pair: (Family, Family)) -> Self {
        Self::whole(seed, Some(pair)).with(seed, Adversities { crowd: true, ..Adversities::default() }).at_worst()
    }

    /// As [`Plan::fair`], on chains of these families: nothing goes wrong, and one payment goes from the first to the second.
    pub fn fair_on(seed: u64, pair: (Family, Family)) -> Self {
        let mut plan = Self::fair(seed).with_families(seed, pair);
        plan.payments[0].corridor = (0, 1);
        plan
    }

    /// The same on chains of other families, with the time that those take.
    pub(super) fn with_families(mut self, seed: u64, pair: (Family, Family)) -> Self {
        let random = RandomSource::new(seed, "pace of families");
        for (chain, family) in self.chains.iter_mut().zip([pair.0, pair.1]) {
            *chain = match family {
                Family::Evm => *chain,
                Family::Tron => {
                    ChainPlan { family, block: random.pick(&[3, 6]), depth: random.number(2..=6), by_tag: true }
                }
                Family::Solana => {
                    ChainPlan { family, block: random.number(2..=4), depth: random.number(2..=6), by_tag: true }
                }
            };
        }
        let mut payments = std::mem::take(&mut self.payments);
        payments.iter_mut().for_each(|payment| self.lengthen(payment));
        self.payments = payments;
        self
    }

    /// Gives a payment the time that its source takes: where the payer's own transaction deposits, that and then the reservation have to
    /// be settled one after the other.
    pub(super) fn lengthen(&self, payment: &mut PaymentPlan) {
        if self.chains[payment.corridor.0].family == Family::Tron {
            payment.reserve += 60;
            payment.fulfill += 60;
        }
    }
}
