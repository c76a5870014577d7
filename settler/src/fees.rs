//! Fee cache: what the chains ask for transactions. Prices of gas move by the block and not by the request, so that requests that nobody signed
//! cost the node next to nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use chains::settler::{DeliveryChain, UsualFees};
use events::ChainId;
use sagas::ports::Transient;

/// Longest age of what is known of a chain's fees.
const AGE_MAX: Duration = Duration::from_secs(5);

/// What was last asked for, read by single flight: the caller that reads it anew holds the lock, and the others wait for its result.
type Last = Arc<tokio::sync::Mutex<Option<(Instant, UsualFees)>>>;

/// The fees of the chains that are traded on.
#[derive(Debug, Default)]
pub struct Fees {
    last: Mutex<HashMap<ChainId, Last>>,
}

impl Fees {
    /// What `chain`, which is `id`, asked for at most seconds ago.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn recent(&self, id: &ChainId, chain: &dyn DeliveryChain) -> Result<UsualFees, Transient> {
        let last = {
            // Inserting cannot panic half way. Only chains of the configuration get here.
            let mut all = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(id.clone()).or_default().clone()
        };
        let mut last = last.lock().await;
        if let Some((read_at, fees)) = *last
            && read_at.elapsed() < AGE_MAX
        {
            return Ok(fees);
        }
        let fees = chain.usual_fees().await?;
        *last = Some((Instant::now(), fees));
        Ok(fees)
    }
}
