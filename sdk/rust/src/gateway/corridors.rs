//! Corridors: what a gateway uses on the chains that payments go over.

use std::collections::BTreeMap;

use events::{ChainId, OwnedAsset};

use super::Gateway;
use crate::{
    answers::{ChainDefaults, Corridor},
    error::Error,
    order::Order,
};

/// What is known of some chains.
type Known = BTreeMap<ChainId, ChainDefaults>;

impl Gateway {
    /// The defaults that a payment from `source` to one of `destination` rests on.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn corridor(&self, source: &OwnedAsset, destination: &[OwnedAsset]) -> Result<Corridor, Error> {
        let mut known = Known::new();
        self.corridor_of(source, destination, &mut known).await
    }

    /// The same of each of these orders. Each chain is asked for once.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn corridors(&self, orders: &[Order]) -> Result<Vec<Corridor>, Error> {
        let (mut known, mut corridors) = (Known::new(), Vec::with_capacity(orders.len()));
        for order in orders {
            corridors.push(self.corridor_of(&order.source, &order.destination, &mut known).await?);
        }
        Ok(corridors)
    }

    async fn corridor_of(
        &self,
        source: &OwnedAsset,
        destination: &[OwnedAsset],
        known: &mut Known,
    ) -> Result<Corridor, Error> {
        let found = self.defaults_of(source, known).await?;
        let mut refund_delay_seconds = found.refund_delay_seconds;
        let mut destinations = Vec::with_capacity(destination.len());
        for owned in destination {
            let chain_defaults = self.defaults_of(owned, known).await?;
            refund_delay_seconds = refund_delay_seconds.max(chain_defaults.refund_delay_seconds);
            destinations.push(chain_defaults.asset(owned.asset()).cloned());
        }
        Ok(Corridor { source: found, refund_delay_seconds, destinations })
    }

    async fn defaults_of(&self, owned: &OwnedAsset, known: &mut Known) -> Result<ChainDefaults, Error> {
        let chain = owned.asset().chain();
        if let Some(found) = known.get(chain) {
            return Ok(found.clone());
        }
        let found = self.chain_defaults(chain).await?;
        known.insert(chain.clone(), found.clone());
        Ok(found)
    }
}
