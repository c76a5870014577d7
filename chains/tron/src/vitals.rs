//! Vital signs of a Tron chain (metrics).

use async_trait::async_trait;

use chains::vitals::{Spent, SubmitterVitals, Vitals};
use events::{ChainId, event::TransactionPrepared};
use sagas::ports::Transient;

use super::{adapter::TronChain, address::text, query::State, transaction_status::id_of};

/// Sun of a TRX.
const COIN: f64 = 1e6;

#[async_trait]
impl Vitals for TronChain {
    fn chain_id(&self) -> &ChainId {
        self.node().chain_id()
    }

    async fn settled(&self) -> Result<u64, Transient> {
        self.node().settled().await.map(|block| block.number)
    }

    async fn spent(&self, versions: &[TransactionPrepared]) -> Result<Option<Spent>, Transient> {
        // There is one version only.
        let Some(newest) = versions.last() else { return Ok(None) };
        let info = self.node().info(id_of(newest)?, State::Solidified).await?;
        Ok(info.map(|info| Spent { success: info.failure.is_none(), gas: info.energy, fee: info.fee_sun.into() }))
    }

    async fn submitters(&self) -> Result<Vec<SubmitterVitals>, Transient> {
        let mut found = Vec::new();
        for account in self.submitter_accounts() {
            let coins = self.node().balance(account).await? as f64 / COIN;
            found.push(SubmitterVitals { account: text(account), coins, nonces_in_flight: None });
        }
        Ok(found)
    }
}
