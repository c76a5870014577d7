//! Vital signs of an EVM chain (metrics).

use async_trait::async_trait;

use chains::vitals::{Spent, SubmitterVitals, Vitals};
use events::{ChainId, event::TransactionPrepared};
use sagas::ports::Transient;

use super::{adapter::EvmChain, query::Query, transaction::hash_of};

/// Wei of a coin.
const COIN: f64 = 1e18;

#[async_trait]
impl Vitals for EvmChain {
    fn chain_id(&self) -> &ChainId {
        self.node().chain_id()
    }

    async fn settled(&self) -> Result<u64, Transient> {
        self.node().settled().await.map(|block| block.number)
    }

    async fn spent(&self, versions: &[TransactionPrepared]) -> Result<Option<Spent>, Transient> {
        // The newest version is the likeliest to be there.
        for version in versions.iter().rev() {
            if let Some(receipt) = Query::of(self.node()).receipt(hash_of(version)?).await? {
                return Ok(Some(Spent { success: receipt.success, gas: receipt.gas_used, fee: receipt.fee }));
            }
        }
        Ok(None)
    }

    async fn submitters(&self) -> Result<Vec<SubmitterVitals>, Transient> {
        let mut found = Vec::new();
        // Their coins are watched anyway.
        for (health, nonces) in self.submitters_in_flight().await? {
            let coins = f64::from(health.balance) / COIN;
            found.push(SubmitterVitals { account: health.account, coins, nonces_in_flight: Some(nonces) });
        }
        Ok(found)
    }
}
