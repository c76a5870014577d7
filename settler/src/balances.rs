//! Balance cache: what the settler's accounts hold. A balance is read anew where tokens are promised on it, and comes
//! from a short cache where nothing is, so that unsigned requests cost the node almost nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use chrono::Utc;
use tokio::time::Instant;

use chains::settler::DeliveryChain;
use events::AssetId;
use sagas::ports::Transient;

use crate::{
    agent_metrics::free_to_promise,
    inventory::{Funds, Inventory},
};

/// Longest age of a cached balance, on which nothing is promised.
const AGE_MAX: Duration = Duration::from_secs(2);

/// The last balance of an asset, read by single flight: the caller that reads it anew holds the lock, and the others
/// wait for its result.
type Last = Arc<tokio::sync::Mutex<Option<(Instant, Funds)>>>;

/// The balances of the assets that are traded.
#[derive(Debug, Default)]
pub struct Balances {
    last: Mutex<HashMap<AssetId, Last>>,
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
        let last = {
            // Inserting cannot panic half way. Only assets that are traded get here.
            let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(asset.clone()).or_default().clone()
        };
        let mut last = last.lock().await;
        if let Some((read_at, funds)) = *last
            && read_at.elapsed() < AGE_MAX
            && funds.version == inventory.version()
        {
            return Ok(funds);
        }
        let funds = Self::newest(chain, asset, inventory).await?;
        *last = Some((Instant::now(), funds));
        Ok(funds)
    }
}
