//! Transaction cost: energy and bandwidth, the `fee_limit` that covers them, and what an account lacks for them.

use sagas::ports::Transient;

use super::node::{AccountResources, Prices};

/// Energy that a reservation takes at most, with the margin that its fee limit has.
pub(super) const RESERVATION_ENERGY: u64 = 150_000;
/// Energy that a payer's deposit takes at least: the escrow writes two words that were zero, at 20,000 each, and some that were
/// not, and checks a signature.
pub(super) const DEPOSIT_ENERGY_LEAST: u64 = 55_000;
/// Energy that must be there for a refund or a release: the escrow asks for 380,000 and more before each of up to two payouts,
/// so that nobody can starve one. What is not used is not paid.
pub(super) const PAYOUT_ENERGY: u64 = 1_000_000;
/// Most energy that an admitted deposit, from an address or by Permit2, or the return of what is at an address, may take when it is
/// tried out: the token's code is anybody's. With a plain token each takes a quarter of it at most.
pub(super) const ADMITTED_DEPOSIT_ENERGY_MAX: u64 = 1_000_000;
/// Energy that a refund or a release takes of what must be there.
const EXIT_ENERGY: u64 = 100_000;
/// Bytes of a refund or a release: the terms of the payment are among them.
const EXIT_BYTES: u64 = 1_000;
/// Bytes that the network adds to a transaction for its result.
const RESULT_BYTES: u64 = 64;

/// What a transaction takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Energy.
    pub energy: u64,
    /// Bytes of bandwidth.
    pub bandwidth: u64,
}

impl Cost {
    /// Of a signed transaction of `bytes` bytes.
    pub fn new(energy: u64, bytes: usize) -> Self {
        Self { energy, bandwidth: bytes as u64 + RESULT_BYTES }
    }

    /// This and `other`.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            energy: self.energy.saturating_add(other.energy),
            bandwidth: self.bandwidth.saturating_add(other.bandwidth),
        }
    }

    /// The same, and so many exits after it: what one of them must show to be there, and what all of them take.
    pub fn with_exits(&self, exits: u64) -> Self {
        let shown = if exits == 0 { 0 } else { PAYOUT_ENERGY };
        let energy = EXIT_ENERGY.saturating_mul(exits).saturating_add(shown);
        self.plus(&Self { energy, bandwidth: EXIT_BYTES.saturating_mul(exits) })
    }

    /// The `fee_limit` that covers the energy, in sun. Energy from a stake counts against it, too.
    ///
    /// # Errors
    /// [`Transient::RateLimited`] when the network does not take one so high: it may by another vote, or by another price.
    pub fn fee_limit(&self, prices: &Prices) -> Result<u64, Transient> {
        let limit = self.energy.checked_mul(prices.energy_sun);
        let limit = limit.filter(|limit| prices.fee_limit_max_sun.is_none_or(|max| *limit <= max));
        let what = || format!("{} energy are needed, and the network takes no fee_limit so high", self.energy);
        limit.ok_or_else(|| Transient::rate_limited(what()))
    }

    /// Sun that it takes at most from an account with these resources, or from one of which nothing is known.
    pub fn burnt(&self, resources: Option<&AccountResources>, prices: &Prices) -> u64 {
        let (energy, bandwidth) = resources.map_or((0, 0), |left| (left.energy, left.bandwidth));
        // Bandwidth comes whole from one source.
        let bytes = if bandwidth >= self.bandwidth { 0 } else { self.bandwidth };
        let energy = self.energy.saturating_sub(energy);
        energy.saturating_mul(prices.energy_sun).saturating_add(bytes.saturating_mul(prices.bandwidth_sun))
    }

    /// What an account with these resources lacks for it, in words; `None` when it lacks nothing.
    pub fn lacking(&self, resources: &AccountResources, prices: &Prices) -> Option<String> {
        let needed = self.burnt(Some(resources), prices);
        (resources.balance_sun < needed).then(|| {
            format!(
                "{} energy and {} bytes of bandwidth cost {needed} sun beyond what is staked, and the account has {} sun",
                self.energy, self.bandwidth, resources.balance_sun
            )
        })
    }
}

/// The energy to allow for a call that took `estimate` when it was tried out: the state may change before it runs.
pub(super) fn with_margin(estimate: u64) -> u64 {
    estimate.saturating_add(estimate / 2)
}

/// What an estimate understates: a call inside the code passes on 63 of 64 parts of what is left.
pub(super) fn with_reserve(estimate: u64) -> u64 {
    estimate.saturating_add(estimate / 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { energy_sun: 100, bandwidth_sun: 1_000, fee_limit_max_sun: Some(1_000_000) };

    #[test]
    fn a_fee_limit_covers_all_energy_or_there_is_none() {
        let unlimited = Prices { fee_limit_max_sun: None, ..PRICES };
        assert_eq!(Cost::new(10_000, 300).fee_limit(&PRICES), Ok(1_000_000));
        assert_eq!(Cost::new(10_001, 300).fee_limit(&unlimited), Ok(1_000_100));
        for (energy, prices) in [(10_001, PRICES), (u64::MAX, unlimited)] {
            // Nothing is wrong with the configuration, so no alarm is raised.
            let fault = Cost::new(energy, 300).fee_limit(&prices).unwrap_err();
            assert_eq!(fault.kind(), "rate limited", "{fault}");
        }
    }

    #[test]
    fn an_account_pays_for_what_its_stake_does_not_give() {
        let cost = Cost::new(10_000, 300);
        let lacks = |balance_sun, energy, bandwidth| {
            cost.lacking(&AccountResources { balance_sun, energy, bandwidth }, &PRICES).is_some()
        };
        assert!(!lacks(1_364_000, 0, 0) && lacks(1_363_999, 0, 0));
        assert!(!lacks(364_000, 10_000, 0) && lacks(363_999, 10_000, 0));
        // Bandwidth that does not cover it all covers nothing of it.
        assert!(!lacks(1_000_000, 0, 364) && lacks(1_000_000, 0, 363));
        assert!(!lacks(0, 20_000, 1_000));
        assert_eq!(cost.with_exits(0), cost);
        assert_eq!(cost.with_exits(10), Cost { energy: 2_010_000, bandwidth: 10_364 });
        let told = cost.lacking(&AccountResources { balance_sun: 7, energy: 0, bandwidth: 0 }, &PRICES).unwrap();
        assert!(told.contains("1364000 sun") && told.contains("has 7 sun"), "{told}");
    }
}
