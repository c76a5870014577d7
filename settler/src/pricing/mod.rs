//! Price of a delivery in the source asset. The arithmetic is integer and rounds up, against the payer and never
//! against the settler.

mod book;
mod margin;
pub mod market;
mod rate;

use std::sync::Arc;

use ruint::aliases::{U256, U1024};

use events::{Amount, time::Timestamp};

pub use self::{
    book::{Book, Prices, ReplaceError},
    margin::{Margin, Skew, Tier},
    rate::{Rate, Rates},
};

/// How a corridor is priced.
#[derive(Debug, Clone)]
pub struct Pricing {
    /// What the assets are worth in each other.
    pub rates: Arc<dyn Rates>,
    /// The settler's margin on the converted amount.
    pub margin: Margin,
    /// Flat cost of the transactions, in the smallest unit of the source asset.
    pub gas_cost: U256,
    /// What the chains ask for the transactions, where that is counted besides.
    pub chain_fees: Option<ChainFees>,
}

/// How what chains ask for transactions is counted in the source asset.
#[derive(Debug, Clone)]
pub struct ChainFees {
    /// What the coin of the delivery's chain is worth.
    pub delivery: Arc<dyn Rates>,
    /// What the coin of the escrow's chain is worth.
    pub release: Arc<dyn Rates>,
    /// What is added, in basis points: the release comes later, and prices of gas move.
    pub margin_bps: u32,
}

/// What a price depends on besides what is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conditions {
    /// What is free of the destination asset, smallest unit; `None` where nobody looked.
    pub free: Option<U256>,
    /// What a delivery costs now, smallest unit of its chain's coin; `None` where nobody looked.
    pub delivery_fee: Option<U256>,
    /// What a release costs now, smallest unit of its chain's coin; `None` where nobody looked.
    pub release_fee: Option<U256>,
}

/// Why there is no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unpriced {
    /// What something is worth, or what the chains ask, is not known at the moment.
    #[error("not known at the moment")]
    Unknown,
    /// No amount of the source chain is so large.
    #[error("too large for the source chain")]
    TooLarge,
}

impl Pricing {
    /// One that never changes: a rate, a spread and the cost of gas, smallest unit of the source asset.
    pub fn fixed(rate: Rate, spread_bps: u32, gas_cost: U256) -> Self {
        let margin = Margin { spread_bps, ..Margin::default() };
        Self { rates: Arc::new(rate), margin, gas_cost, chain_fees: None }
    }

    /// Price of delivering `amount`: ⌈amount × rate × (1 + margin)⌉, at least ⌈amount × rate⌉ with the least profit, and what the transactions
    /// cost. `bits` is the width of amounts on the source chain.
    ///
    /// ```
    /// use ruint::aliases::U256;
    /// use settler::pricing::{Conditions, Pricing, Rate};
    ///
    /// let pricing = Pricing::fixed(Rate::PAR, 50, U256::from(7));
    /// let price = pricing.price("1000".parse()?, 256, Conditions::default(), Default::default()).unwrap();
    /// assert_eq!(price.to_string(), "1012");
    /// # Ok::<(), events::amount::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unpriced`].
    pub fn price(&self, amount: Amount, bits: u32, conditions: Conditions, now: Timestamp) -> Result<Amount, Unpriced> {
        let rate = self.rates.rate(now).ok_or(Unpriced::Unknown)?;
        let fees = match &self.chain_fees {
            Some(fees) => fees.cost(conditions, now)?,
            None => U1024::ZERO,
        };
        let margin_bps = self.margin.bps(amount.get(), conditions.free);
        let least = rate.with_margin(amount.get(), 0) + U1024::from(self.margin.profit_min);
        // Below 2^546, and so is their sum.
        let price = rate.with_margin(amount.get(), margin_bps).max(least) + U1024::from(self.gas_cost) + fees;
        let price = if price.bit_len() <= 256 { Amount::new(price.to::<U256>()) } else { None };
        price.and_then(|price| price.within(bits).ok()).ok_or(Unpriced::TooLarge)
    }

    /// Whether the price depends on what is free of the destination asset.
    pub fn heeds_inventory(&self) -> bool {
        self.margin.skew.is_some()
    }
}

impl ChainFees {
    fn cost(&self, conditions: Conditions, now: Timestamp) -> Result<U1024, Unpriced> {
        let of = |rates: &Arc<dyn Rates>, fee: Option<U256>| {
            let (rate, fee) = rates.rate(now).zip(fee).ok_or(Unpriced::Unknown)?;
            Ok(rate.with_margin(fee, self.margin_bps))
        };
        Ok(of(&self.delivery, conditions.delivery_fee)? + of(&self.release, conditions.release_fee)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount(value: u128) -> Amount {
        Amount::new(U256::from(value)).unwrap()
    }

    fn price(pricing: &Pricing, amount: Amount, bits: u32) -> Result<Amount, Unpriced> {
        pricing.price(amount, bits, Conditions::default(), Timestamp::default())
    }

    fn rate(source: u64, destination: u64) -> Rate {
        Rate::new(U256::from(source), U256::from(destination)).unwrap()
    }

    #[test]
    fn the_smallest_amount_still_pays_the_spread() {
        assert_eq!(price(&Pricing::fixed(Rate::PAR, 1, U256::ZERO), amount(1), 256), Ok(amount(2)));
        assert_eq!(price(&Pricing::fixed(Rate::PAR, 0, U256::ZERO), amount(1), 256), Ok(amount(1)));
    }

    #[test]
    fn what_does_not_fit_the_chain_has_no_price() {
        let pricing = Pricing::fixed(Rate::PAR, 1, U256::ZERO);
        assert_eq!(price(&pricing, Amount::new(U256::MAX).unwrap(), 256), Err(Unpriced::TooLarge));
        assert_eq!(price(&pricing, amount(u128::from(u64::MAX)), 64), Err(Unpriced::TooLarge));
        assert!(price(&pricing, amount(u128::from(u64::MAX)), 256).is_ok());
        // Nothing overflows on the way there.
        let extreme = Pricing {
            rates: Arc::new(Rate::new(U256::MAX, U256::ONE).unwrap()),
            margin: Margin { spread_bps: u32::MAX, profit_min: U256::MAX, ..Margin::default() },
            gas_cost: U256::MAX,
            chain_fees: None,
        };
        assert_eq!(price(&extreme, Amount::new(U256::MAX).unwrap(), 256), Err(Unpriced::TooLarge));
    }

    #[test]
    fn a_small_delivery_leaves_the_least_profit() {
        let mut pricing = Pricing::fixed(rate(2, 1), 100, U256::from(5));
        pricing.margin.profit_min = U256::from(10);
        // One per cent of 200 is less, and of 20,000 more.
        assert_eq!(price(&pricing, amount(100), 256), Ok(amount(215)));
        assert_eq!(price(&pricing, amount(10_000), 256), Ok(amount(20_205)));
    }

    #[test]
    fn what_the_chains_ask_is_paid_by_the_payer_or_nothing_is_quoted() {
        let fees = ChainFees { delivery: Arc::new(rate(3, 1)), release: Arc::new(rate(1, 2)), margin_bps: 5_000 };
        let pricing = Pricing { chain_fees: Some(fees), ..Pricing::fixed(Rate::PAR, 0, U256::ZERO) };
        let known = Conditions { free: None, delivery_fee: Some(U256::from(10)), release_fee: Some(U256::from(5)) };
        let of = |conditions| pricing.price(amount(100), 256, conditions, Timestamp::default());
        // 10 × 3 × 1.5 and ⌈5 / 2 × 1.5⌉.
        assert_eq!(of(known), Ok(amount(100 + 45 + 4)));
        assert_eq!(of(Conditions { delivery_fee: None, ..known }), Err(Unpriced::Unknown));
        assert_eq!(of(Conditions { release_fee: None, ..known }), Err(Unpriced::Unknown));
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
            let pricing = Pricing::fixed(rate(source, destination), spread_bps, U256::from(gas));
            let price = price(&pricing, amount(units), 256).unwrap().get() - U256::from(gas);
            // Compared as fractions, without division: price / 1 against numerator / denominator.
            let numerator = U256::from(units) * U256::from(source) * U256::from(10_000 + u64::from(spread_bps));
            let denominator = U256::from(destination) * U256::from(10_000u64);
            prop_assert!(price * denominator >= numerator);
            prop_assert!((price - U256::from(1)) * denominator < numerator);
        }

        #[test]
        fn more_costs_no_less(units in 1..=u128::MAX - 1, spread_bps in 0..=20_000u32) {
            let pricing = Pricing::fixed(rate(3, 7), spread_bps, U256::from(5));
            prop_assert!(price(&pricing, amount(units), 256).ok() <= price(&pricing, amount(units + 1), 256).ok());
        }
    }
}
