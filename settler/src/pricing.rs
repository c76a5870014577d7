//! Price of a delivery in the source asset. The arithmetic is integer and rounds up, against the payer and never
//! against the settler.

use ruint::aliases::{U256, U512};

use events::Amount;

/// Basis points in the whole.
const BASIS_POINTS: u64 = 10_000;

/// Exchange rate: units of the source asset for units of the destination asset, both smallest units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    source: u64,
    destination: u64,
}

impl Rate {
    /// One unit for one unit.
    pub const PAR: Self = Self { source: 1, destination: 1 };

    /// `source` units for `destination` units, or `None` when either is zero.
    pub fn new(source: u64, destination: u64) -> Option<Self> {
        (source > 0 && destination > 0).then_some(Self { source, destination })
    }
}

/// How a corridor is priced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pricing {
    /// What the assets are worth in each other.
    pub rate: Rate,
    /// The settler's margin on the converted amount, in basis points.
    pub spread_bps: u32,
    /// Flat cost of the transactions, in the smallest unit of the source asset.
    pub gas_cost: U256,
}

impl Pricing {
    /// Price of delivering `amount`: ⌈amount × rate × (1 + spread)⌉ + gas. `None` when it exceeds `bits` bits, the
    /// width of amounts on the source chain.
    ///
    /// ```
    /// use ruint::aliases::U256;
    /// use settler::pricing::{Pricing, Rate};
    ///
    /// let pricing = Pricing { rate: Rate::PAR, spread_bps: 50, gas_cost: U256::from(7) };
    /// let price = pricing.price("1000".parse()?, 256).unwrap();
    /// assert_eq!(price.to_string(), "1012");
    /// # Ok::<(), events::amount::Error>(())
    /// ```
    pub fn price(&self, amount: Amount, bits: u32) -> Option<Amount> {
        // 256 bits times 64 times 33 is at most 353 bits; the sum with 256 bits of gas stays below 512.
        let scaled = U512::from(amount.get())
            * U512::from(self.rate.source)
            * U512::from(BASIS_POINTS + u64::from(self.spread_bps));
        let price = scaled.div_ceil(U512::from(self.rate.destination) * U512::from(BASIS_POINTS));
        let price = price + U512::from(self.gas_cost);
        let price: U256 = (price.bit_len() <= 256).then(|| price.to::<U256>())?;
        Amount::new(price)?.within(bits).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(value: u128) -> Amount {
        Amount::new(U256::from(value)).unwrap()
    }

    #[test]
    fn the_smallest_amount_still_pays_the_spread() {
        let pricing = Pricing { rate: Rate::PAR, spread_bps: 1, gas_cost: U256::ZERO };
        assert_eq!(pricing.price(amount(1), 256), Some(amount(2)));
        let free = Pricing { spread_bps: 0, ..pricing };
        assert_eq!(free.price(amount(1), 256), Some(amount(1)));
    }

    #[test]
    fn what_does_not_fit_the_chain_has_no_price() {
        let pricing = Pricing { rate: Rate::PAR, spread_bps: 1, gas_cost: U256::ZERO };
        assert_eq!(pricing.price(Amount::new(U256::MAX).unwrap(), 256), None);
        assert_eq!(pricing.price(amount(u128::from(u64::MAX)), 64), None);
        assert!(pricing.price(amount(u128::from(u64::MAX)), 256).is_some());
    }

    proptest! {
        #[test]
        fn never_below_the_exact_price_and_less_than_one_unit_above(
            units in 1..=u128::MAX >> 64,
            source in 1..=1_000_000u64,
            destination in 1..=1_000_000u64,
            spread_bps in 0..=20_000u32,
            gas in 0..=u64::MAX,
        ) {
            let pricing =
                Pricing { rate: Rate::new(source, destination).unwrap(), spread_bps, gas_cost: U256::from(gas) };
            let price = pricing.price(amount(units), 256).unwrap().get() - U256::from(gas);
            // Compared as fractions, without division: price / 1 against numerator / denominator.
            let numerator = U256::from(units) * U256::from(source) * U256::from(10_000 + u64::from(spread_bps));
            let denominator = U256::from(destination) * U256::from(10_000u64);
            prop_assert!(price * denominator >= numerator);
            prop_assert!((price - U256::from(1)) * denominator < numerator);
        }

        #[test]
        fn more_costs_no_less(units in 1..=u128::MAX - 1, spread_bps in 0..=20_000u32) {
            let pricing = Pricing { rate: Rate::new(3, 7).unwrap(), spread_bps, gas_cost: U256::from(5) };
            prop_assert!(pricing.price(amount(units), 256) <= pricing.price(amount(units + 1), 256));
        }
    }
}
