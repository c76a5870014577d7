//! What feeds said last, and what is made of it.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use chrono::TimeDelta;
use ruint::aliases::U256;

use events::time::Timestamp;

use super::{
    super::rate::{BASIS_POINTS, Rate, Rates},
    unit_price::UnitPrice,
};

/// How far the clock of a feed may be ahead of ours.
const AHEAD_MAX: TimeDelta = TimeDelta::seconds(30);

/// What a feed calls an asset.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId {
    /// The feed's name in the configuration.
    pub feed: String,
    /// Its name of the asset.
    pub id: String,
}

/// What a feed said of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// What the asset is worth.
    pub price: UnitPrice,
    /// When it was, by the feed where that says so.
    pub at: Timestamp,
}

/// The last observations of all feeds.
#[derive(Debug, Default)]
pub struct Board {
    latest: RwLock<HashMap<SourceId, Observation>>,
}

impl Board {
    /// Notes what a feed said. What is older than what is known is left out, and so is what is of a time to come at `now`: it would never
    /// be old.
    pub fn note(&self, source: SourceId, observation: Observation, now: Timestamp) {
        if observation.at > now + AHEAD_MAX {
            tracing::debug!(feed = source.feed, id = source.id, at = %observation.at, "a price of a time to come is left out");
            return;
        }
        // Inserting cannot panic half way.
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        let known = latest.entry(source).or_insert(observation);
        // Our own clock may have been ahead of what it is now.
        if known.at <= observation.at || known.at > now + AHEAD_MAX {
            *known = observation;
        }
    }

    /// What the source said last.
    pub fn latest(&self, source: &SourceId) -> Option<Observation> {
        self.latest.read().unwrap_or_else(PoisonError::into_inner).get(source).copied()
    }
}

/// How an asset's price is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AssetPrice {
    /// It is taken for as much, always.
    Fixed(UnitPrice),
    /// The median of what feeds say.
    Median(Median),
}

/// The median of several sources, and when it is good enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Median {
    /// Who is heard.
    pub sources: Vec<SourceId>,
    /// How many have to have said something lately; at least one.
    pub least: usize,
    /// How long what was said counts.
    pub stale_after: TimeDelta,
    /// How far the highest may be above the lowest, in basis points of the lowest.
    pub deviation_bps: u32,
}

/// Why an asset has no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPrice {
    /// Too few sources said something lately.
    #[error("{fresh} of at least {least} sources said something lately")]
    TooFew {
        /// How many did.
        fresh: usize,
        /// How many have to.
        least: usize,
    },
    /// They are too far apart.
    #[error("sources differ by {bps} basis points")]
    Apart {
        /// By how much.
        bps: u64,
    },
}

/// The median: two prices where the number of sources is even, one twice where it is odd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Middle {
    /// For what the settler takes.
    pub lower: UnitPrice,
    /// For what the settler gives.
    pub upper: UnitPrice,
}

impl AssetPrice {
    /// The price by what `board` has at `now`.
    ///
    /// # Errors
    /// [`NoPrice`].
    pub fn middle(&self, board: &Board, now: Timestamp) -> Result<Middle, NoPrice> {
        match self {
            Self::Fixed(price) => Ok(Middle { lower: *price, upper: *price }),
            Self::Median(median) => median.of(board, now),
        }
    }
}

impl Median {
    fn of(&self, board: &Board, now: Timestamp) -> Result<Middle, NoPrice> {
        let is_fresh =
            |observation: &Observation| observation.at <= now + AHEAD_MAX && now - observation.at <= self.stale_after;
        let said = self.sources.iter().filter_map(|source| board.latest(source)).filter(is_fresh);
        let mut prices: Vec<UnitPrice> = said.map(|observation| observation.price).collect();
        prices.sort_unstable();
        let count = prices.len();
        let (Some(lowest), Some(highest)) = (prices.first(), prices.last()) else {
            return Err(NoPrice::TooFew { fresh: 0, least: self.least });
        };
        if count < self.least {
            return Err(NoPrice::TooFew { fresh: count, least: self.least });
        }
        let apart = U256::from(highest.parts() - lowest.parts()) * U256::from(BASIS_POINTS);
        let bps = apart.div_ceil(U256::from(lowest.parts())).saturating_to::<u64>();
        if bps > u64::from(self.deviation_bps) {
            return Err(NoPrice::Apart { bps });
        }
        Ok(Middle { lower: prices[(count - 1) / 2], upper: prices[count / 2] })
    }
}

/// An asset with its price.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Priced {
    /// How its price is found.
    pub price: AssetPrice,
    /// Decimal places of its amounts; at most 36.
    pub decimals: u8,
}

/// A rate that follows the market. Between two medians it takes the one that is worse for the payer.
#[derive(Debug)]
pub struct MarketRate {
    /// What the feeds say.
    pub board: Arc<Board>,
    /// What is taken.
    pub source: Priced,
    /// What is given.
    pub destination: Priced,
}

impl Rates for MarketRate {
    fn rate(&self, now: Timestamp) -> Option<Rate> {
        let of = |asset: &Priced| asset.price.middle(&self.board, now).ok();
        let (taken, given) = (of(&self.source)?.lower, of(&self.destination)?.upper);
        // A price is below 2^128, and a power of ten up to 10^36 below 2^120.
        let power = |asset: &Priced| U256::from(10).pow(U256::from(asset.decimals));
        let value = |price: UnitPrice, other: &Priced| U256::from(price.parts()) * power(other);
        Rate::new(value(given, &self.source), value(taken, &self.destination))
    }
}

#[cfg(test)]
mod tests {
    use events::{Amount, time::from_unix_seconds};
    use proptest::prelude::*;

    use super::{
        super::super::{Conditions, Pricing},
        *,
    };

    fn at(seconds: u64) -> Timestamp {
        from_unix_seconds(1_800_000_000 + seconds).unwrap()
    }

    fn source(id: &str) -> SourceId {
        SourceId { feed: "feed".to_owned(), id: id.to_owned() }
    }

    fn dollars(text: &str) -> UnitPrice {
        UnitPrice::parse(text).unwrap()
    }

    /// A board on which `a`, `b`, … said these prices at the second 0.
    fn board(prices: &[&str]) -> Board {
        let board = Board::default();
        for (id, price) in ["a", "b", "c", "d"].into_iter().zip(prices) {
            board.note(source(id), Observation { price: dollars(price), at: at(0) }, at(0));
        }
        board
    }

    fn median(least: usize) -> Median {
        let sources = ["a", "b", "c", "d"].map(source).to_vec();
        Median { sources, least, stale_after: TimeDelta::seconds(60), deviation_bps: 200 }
    }

    fn middle(prices: &[&str], now: u64) -> Result<(UnitPrice, UnitPrice), NoPrice> {
        let found = AssetPrice::Median(median(2)).middle(&board(prices), at(now));
        found.map(|middle| (middle.lower, middle.upper))
    }

    #[test]
    fn the_median_counts_and_of_two_each_where_it_is_dearer() {
        assert_eq!(middle(&["100", "101", "99.5"], 60), Ok((dollars("100"), dollars("100"))));
        assert_eq!(middle(&["100", "101", "99.5", "100.5"], 60), Ok((dollars("100"), dollars("100.5"))));
    }

    #[test]
    fn what_is_old_or_said_by_too_few_counts_for_nothing() {
        assert_eq!(middle(&["100"], 0), Err(NoPrice::TooFew { fresh: 1, least: 2 }));
        assert_eq!(middle(&["100", "100"], 61), Err(NoPrice::TooFew { fresh: 0, least: 2 }));
        assert_eq!(middle(&[], 0), Err(NoPrice::TooFew { fresh: 0, least: 2 }));
    }

    #[test]
    fn one_that_lies_stops_the_settler_and_does_not_ruin_it() {
        assert_eq!(middle(&["100", "100", "1"], 0), Err(NoPrice::Apart { bps: 990_000 }));
        assert_eq!(middle(&["100", "102"], 0), Ok((dollars("100"), dollars("102"))));
        assert_eq!(middle(&["100", "102.01"], 0), Err(NoPrice::Apart { bps: 201 }));
    }

    #[test]
    fn what_is_older_or_of_a_time_to_come_is_not_noted() {
        let board = board(&["100"]);
        board.note(source("a"), Observation { price: dollars("50"), at: at(0) - TimeDelta::seconds(1) }, at(0));
        board.note(source("a"), Observation { price: dollars("50"), at: at(31) }, at(0));
        assert_eq!(board.latest(&source("a")).unwrap().price, dollars("100"));
        board.note(source("a"), Observation { price: dollars("50"), at: at(30) }, at(0));
        assert_eq!(board.latest(&source("a")).unwrap().price, dollars("50"));
        // A clock that was ahead makes nothing fresh, and keeps nothing newer out.
        board.note(source("b"), Observation { price: dollars("70"), at: at(1_000) }, at(1_000));
        assert_eq!(AssetPrice::Median(median(1)).middle(&board, at(30)).unwrap().lower, dollars("50"));
        board.note(source("b"), Observation { price: dollars("50"), at: at(20) }, at(20));
        assert_eq!(board.latest(&source("b")).unwrap().price, dollars("50"));
        board.note(source("new"), Observation { price: dollars("50"), at: at(31) }, at(0));
        assert_eq!(board.latest(&source("new")), None);
    }

    fn market(prices: &[&str], decimals: (u8, u8)) -> Pricing {
        let rates = MarketRate {
            board: Arc::new(board(prices)),
            source: Priced { price: AssetPrice::Fixed(dollars("1")), decimals: decimals.0 },
            destination: Priced { price: AssetPrice::Median(median(2)), decimals: decimals.1 },
        };
        Pricing { rates: Arc::new(rates), ..Pricing::fixed(Rate::PAR, 0, U256::ZERO) }
    }

    #[test]
    fn a_coin_costs_what_the_market_says_whatever_the_decimals() {
        let price = |pricing: &Pricing, amount: &str, now| {
            let price = pricing.price(amount.parse().unwrap(), 256, Conditions::default(), at(now));
            price.map(|price: Amount| price.to_string())
        };
        let pricing = market(&["3000", "3005.12", "3010"], (6, 18));
        assert_eq!(price(&pricing, "1000000000000000000", 0), Ok("3005120000".to_owned()));
        // Less than a unit is one.
        assert_eq!(price(&pricing, "1", 0), Ok("1".to_owned()));
        assert_eq!(price(&pricing, "1", 61), Err(super::super::super::Unpriced::Unknown));
        assert_eq!(price(&market(&["0.0004", "0.0004"], (18, 0)), "5", 0), Ok("2000000000000000".to_owned()));
        let extreme = market(&["340282366920938463463", "340282366920938463463"], (36, 36));
        assert_eq!(price(&extreme, "1", 0), Ok("340282366920938463463".to_owned()));
    }

    proptest! {
        /// Whatever is said, a median of at least three lies within what two of them said.
        #[test]
        fn one_of_three_moves_the_price_no_further_than_the_others(one in 1_000_000..2_000_000u128, other in 1_000_000..2_000_000u128, liar in 1..u128::MAX) {
            let board = Board::default();
            for (id, parts) in [("a", one), ("b", other), ("c", liar)] {
                let price = UnitPrice::scaled(parts, -18).unwrap();
                board.note(source(id), Observation { price, at: at(0) }, at(0));
            }
            let unbounded = Median { deviation_bps: u32::MAX, ..median(3) };
            if let Ok(middle) = AssetPrice::Median(unbounded).middle(&board, at(0)) {
                prop_assert!(middle.lower.parts() >= one.min(other) && middle.upper.parts() <= one.max(other));
            }
        }
    }
}
