//! Vital signs of a Solana cluster (metrics).

use async_trait::async_trait;

use chains::vitals::{Spent, SubmitterVitals, Vitals};
use events::{ChainId, event::TransactionPrepared};
use sagas::ports::Transient;

use super::{adapter::SolanaChain, history::History, node::Commitment, program::text};

/// Lamports of a SOL.
const COIN: f64 = 1e9;

#[async_trait]
impl Vitals for SolanaChain {
    fn chain_id(&self) -> &ChainId {
        self.node().chain_id()
    }

    async fn settled(&self) -> Result<u64, Transient> {
        self.node().settled().await.map(|settled| settled.slot)
    }

    async fn spent(&self, versions: &[TransactionPrepared]) -> Result<Option<Spent>, Transient> {
        // There is one version only.
        let Some(newest) = versions.last() else { return Ok(None) };
        let landed = History::of(self.node()).transaction(&newest.transaction_hash, Commitment::Finalized).await?;
        Ok(landed.map(|landed| Spent {
            success: landed.error.is_none(),
            gas: landed.units.unwrap_or_default(),
            fee: landed.fee.unwrap_or_default().into(),
        }))
    }

    async fn submitters(&self) -> Result<Vec<SubmitterVitals>, Transient> {
        let mut found = Vec::new();
        for account in self.submitter_accounts() {
            let coins = self.node().lamports(&account).await? as f64 / COIN;
            found.push(SubmitterVitals { account: text(&account), coins, nonces_in_flight: None });
        }
        Ok(found)
    }
}
