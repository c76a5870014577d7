//! Balance cache: what the settler's accounts hold. A balance is read anew where tokens are promised on it, and comes
//! from a short cache where nothing is, so that unsigned requests cost the node almost nothing.

use std::time::Duration;

use chrono::Utc;

use chains::settler::DeliveryChain;
use events::AssetId;
use sagas::ports::Transient;

use crate::{
    agent_metrics::free_to_promise,
    inventory::{Funds, Inventory},
    single_flight::SingleFlight,
};

/// Longest age of a cached balance, on which nothing is promised.
const AGE_MAX: Duration = Duration::from_secs(2);

/// The balances of the assets that are traded.
#[derive(Debug)]
pub struct Balances {
    last: SingleFlight<AssetId, Funds>,
}

impl Default for Balances {
    fn default() -> Self {
        Self { last: SingleFlight::new(AGE_MAX) }
    }
}

impl Balances {
    /// What the account holds of `asset` in the newest block.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn newest(chain: &dyn DeliveryChain, asset: &AssetId, inventory: &Inventory) -> Result<Funds, Transient> {
        let version = inventory.version();
        let funds = Funds { version, balance: chain.balance(asset).await? };
        free_to_promise(asset, inventory.free(asset, funds, Utc::now()));
        Ok(funds)
    }

    /// What the account held of `asset` at most seconds ago, unless tokens may have left the account since. Concurrent
    /// callers share one read.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn recent(
        &self,
        chain: &dyn DeliveryChain,
        asset: &AssetId,
        inventory: &Inventory,
    ) -> Result<Funds, Transient> {
        let is_current = |funds: &Funds| funds.version == inventory.version();
        self.last.get(asset, is_current, Self::newest(chain, asset, inventory)).await
    }
}
