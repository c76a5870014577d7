//! Exchange rates, and where they come from.

use std::fmt::Debug;

use ruint::aliases::{U256, U1024};

use events::time::Timestamp;

/// Basis points in the whole.
pub(super) const BASIS_POINTS: u64 = 10_000;

/// Exchange rate: units of the source asset for units of the destination asset, both smallest units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    source: U256,
    destination: U256,
}

impl Rate {
    /// One unit for one unit.
    pub const PAR: Self = Self { source: U256::ONE, destination: U256::ONE };

    /// `source` units for `destination` units, or `None` when either is zero.
    pub fn new(source: U256, destination: U256) -> Option<Self> {
        (!source.is_zero() && !destination.is_zero()).then_some(Self { source, destination })
    }

    /// ⌈units × rate × (1 + margin)⌉.
    pub(super) fn with_margin(&self, units: U256, bps: u32) -> U1024 {
        // 256 bits times 256 times 33.
        let scaled = U1024::from(units) * U1024::from(self.source) * U1024::from(BASIS_POINTS + u64::from(bps));
        scaled.div_ceil(U1024::from(self.destination) * U1024::from(BASIS_POINTS))
    }
}

/// What two assets are worth in each other: what a corridor's prices begin with. [`Rate`] is one that does not change,
/// [`MarketRate`](super::market::MarketRate) one that follows the market; a settler of one's own may bring another.
pub trait Rates: Debug + Send + Sync {
    /// The rate at `now`; `None` while it is not known so well that the settler binds itself by it.
    fn rate(&self, now: Timestamp) -> Option<Rate>;
}

impl Rates for Rate {
    fn rate(&self, _: Timestamp) -> Option<Rate> {
        Some(*self)
    }
}
