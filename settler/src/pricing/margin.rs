//! The settler's margin on what it delivers: by size, by what it has left, and never less than a profit.

use ruint::aliases::U256;

/// What a settler asks for above what the delivery is worth.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Margin {
    /// In basis points, where no tier says otherwise.
    pub spread_bps: u32,
    /// Other spreads for larger deliveries, by the least amount, smallest unit of the destination asset, ascending.
    pub tiers: Vec<Tier>,
    /// What is added while the inventory is low.
    pub skew: Option<Skew>,
    /// The least that is left of a payment, smallest unit of the source asset.
    pub profit_min: U256,
}

/// The spread of deliveries of at least an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// The least amount, smallest unit of the destination asset.
    pub from: U256,
    /// The spread in basis points.
    pub spread_bps: u32,
}

/// What a low inventory adds to the spread: nothing at the target and above, all of it where nothing is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew {
    /// How much at most, in basis points.
    pub bps: u32,
    /// How much of the destination asset the settler wants to have free, smallest unit; not zero.
    pub target: U256,
}

impl Margin {
    /// In basis points, for a delivery of `amount` out of `free`, smallest units. Where it is not known what is free, the skew is taken whole.
    pub(super) fn bps(&self, amount: U256, free: Option<U256>) -> u32 {
        let tier = self.tiers.iter().rev().find(|tier| tier.from <= amount);
        let spread = tier.map_or(self.spread_bps, |tier| tier.spread_bps);
        spread.saturating_add(self.skew.map_or(0, |skew| skew.bps_at(amount, free)))
    }
}

impl Skew {
    /// By what is left once `amount` is delivered, rounded up.
    fn bps_at(&self, amount: U256, free: Option<U256>) -> u32 {
        let left = free.unwrap_or_default().saturating_sub(amount).min(self.target);
        // Targets are below 2^200, see the configuration.
        let missing = (self.target - left) * U256::from(self.bps);
        missing.div_ceil(self.target).saturating_to()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn units(value: u64) -> U256 {
        U256::from(value)
    }

    fn margin() -> Margin {
        Margin {
            spread_bps: 30,
            tiers: vec![Tier { from: units(1_000), spread_bps: 20 }, Tier { from: units(10_000), spread_bps: 10 }],
            skew: Some(Skew { bps: 100, target: units(50_000) }),
            profit_min: U256::ZERO,
        }
    }

    #[test]
    fn the_highest_tier_that_is_reached_counts() {
        let plenty = Some(units(1_000_000));
        for (amount, bps) in [(1, 30), (999, 30), (1_000, 20), (9_999, 20), (10_000, 10), (900_000, 10)] {
            assert_eq!(margin().bps(units(amount), plenty), bps, "{amount}");
        }
    }

    #[test]
    fn what_is_short_is_dearer() {
        for (free, bps) in [(50_001, 30), (50_000, 31), (25_001, 80), (1, 130), (0, 130)] {
            assert_eq!(margin().bps(units(1), Some(units(free))), bps, "{free}");
        }
        assert_eq!(margin().bps(units(1), None), 130, "nothing is known of it");
    }

    proptest! {
        #[test]
        fn a_smaller_inventory_makes_nothing_cheaper(free in 0..100_000u64, less in 0..100_000u64, amount in 1..100_000u64) {
            let of = |free: u64| margin().bps(units(amount), Some(units(free)));
            prop_assert!(of(free.saturating_sub(less)) >= of(free));
            prop_assert!((10..=130).contains(&of(free)));
        }
    }
}
