//! A settler's account on EVM chains.

use async_trait::async_trait;
use ruint::aliases::U256;

use chains::perform::PerformError;
use chains_evm::settler::SettlerChain;
use events::AssetId;

use crate::chain::{
    Claim, DeliveryChain, DeliveryOrder, DeliveryState, EscrowState, ReservationOrder, Transient, Trial,
};

/// The settler's account on one EVM chain. No other process may send from it.
pub struct EvmChain {
    chain: SettlerChain,
    account: String,
}

impl EvmChain {
    /// A settler's chain.
    pub fn new(chain: SettlerChain) -> Self {
        let account = chain.account();
        Self { chain, account }
    }
}

#[async_trait]
impl DeliveryChain for EvmChain {
    fn account(&self) -> &str {
        &self.account
    }

    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        self.chain.balance(asset).await
    }

    async fn escrow_state(&self, order: &ReservationOrder) -> Result<EscrowState, Transient> {
        let (settled, record) = self.chain.node().escrows().settled(&order.payment_id, &order.escrow.contract).await?;
        Ok(EscrowState::of(record.as_ref(), order, settled.time))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.chain.delivery_state(order).await
    }

    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<Trial, Transient> {
        Trial::of(self.chain.try_delivery(order).await)
    }

    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, Transient> {
        self.chain
            .deliver(order)
            .await
            .map(|inclusion| inclusion.transaction_hash)
            .map_err(PerformError::into_transient)
    }

    async fn release(&self, order: &ReservationOrder, attestation: &str) -> Result<String, Transient> {
        let released = self.chain.release(&order.payment_id, &order.escrow, attestation).await;
        released.map(|inclusion| inclusion.transaction_hash).map_err(PerformError::into_transient)
    }

    async fn claimable(&self, contract: &str, asset: &AssetId) -> Result<U256, Transient> {
        self.chain.claimable(contract, asset).await
    }

    async fn claim(&self, contract: &str, asset: &AssetId) -> Result<Claim, Transient> {
        Claim::of(self.chain.claim(contract, asset).await)
    }

    async fn next_block(&self) {
        self.chain.node().next_block().await;
    }
}
