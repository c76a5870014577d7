//! What the settler holds, read from the chains: anew where tokens are promised for it, and out of a short memory where
//! nothing is, so that requests which cost their senders nothing cost the node next to nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use events::AssetId;
use tokio::time::Instant;

use crate::{
    chain::{DeliveryChain, Transient},
    inventory::{Funds, Inventory},
};

/// How old a balance may be on which nothing is promised.
const AGE_MAX: Duration = Duration::from_secs(2);

/// The last balance of an asset; whoever reads it anew holds the lock, and the others wait for that one.
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
        let mark = inventory.mark();
        Ok(Funds { mark, balance: chain.balance(asset).await? })
    }

    /// What the account held of `asset` seconds ago, unless a delivery was settled since. One reads for all who ask at a
    /// time.
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
            && funds.mark == inventory.mark()
        {
            return Ok(funds);
        }
        let funds = Self::newest(chain, asset, inventory).await?;
        *last = Some((Instant::now(), funds));
        Ok(funds)
    }
}
