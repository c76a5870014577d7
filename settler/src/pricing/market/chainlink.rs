//! Prices of Chainlink's aggregators, read from a chain.

use alloy::{primitives::Address, sol};
use async_trait::async_trait;

use chains_evm::{batching::Views, node::Node};
use events::time::from_unix_seconds;
use sagas::ports::Transient;

use super::{
    board::Observation,
    feed::{Feed, FeedError, Hear},
    unit_price::UnitPrice,
};

sol! {
    /// Of `AggregatorV3Interface`.
    interface Aggregator {
        /// Decimal places of the answer.
        function decimals() external view returns (uint8);
        /// The newest answer, and since when it is that.
        function latestRoundData() external view returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound);
    }
}

/// Aggregators on a chain; the ids are their addresses.
pub struct Chainlink {
    views: Views,
}

impl Chainlink {
    /// Those on the chain of `node`.
    pub fn on(node: Node) -> Self {
        Self { views: Views::new(node) }
    }

    async fn answer(&self, id: &str) -> Result<Observation, FeedError> {
        let unusable = |what: String| FeedError::Unusable(format!("{id}: {what}"));
        let aggregator: Address = id.parse().map_err(|_| unusable("is no address".to_owned()))?;
        let unread = |error: Transient| FeedError::Unreachable(format!("{id}: {error}"));
        let (decimals, round) = futures::try_join!(
            self.views.read(aggregator, &Aggregator::decimalsCall {}),
            self.views.read(aggregator, &Aggregator::latestRoundDataCall {})
        )
        .map_err(unread)?;
        let price = u128::try_from(round.answer).ok().and_then(|price| UnitPrice::scaled(price, -i32::from(decimals)));
        let at = u64::try_from(round.updatedAt).ok().filter(|at| *at > 0).and_then(from_unix_seconds);
        let observed = price.zip(at).map(|(price, at)| Observation { price, at });
        observed.ok_or_else(|| unusable(format!("answers {} of {}", round.answer, round.updatedAt)))
    }
}

#[async_trait]
impl Feed for Chainlink {
    /// Each aggregator by itself: one that is unusable holds up no other.
    async fn read(&self, ids: &[String], hear: Hear<'_>) -> Result<(), FeedError> {
        let answers = futures::future::join_all(ids.iter().map(|id| self.answer(id))).await;
        let mut outcome = Ok(());
        for (id, answer) in ids.iter().zip(answers) {
            match answer {
                Ok(observation) => hear(id, observation),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }
}
