//! A settler's account on Solana chains.

use async_trait::async_trait;
use ruint::aliases::U256;

use chains::perform::PerformError;
use chains_solana::settler::SettlerChain;
use events::AssetId;

use crate::chain::{DeliveryChain, DeliveryOrder, DeliveryState, EscrowState, ReservationOrder, Transient, Trial};

/// The settler's account on one Solana chain. No other process may send from it.
pub struct SolanaChain {
    chain: SettlerChain,
    account: String,
}

impl SolanaChain {
    /// A settler's chain.
    pub fn new(chain: SettlerChain) -> Self {
        let account = chain.account();
        Self { chain, account }
    }
}

#[async_trait]
impl DeliveryChain for SolanaChain {
    fn account(&self) -> &str {
        &self.account
    }

    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        self.chain.balance(asset).await.map(U256::from)
    }

    async fn escrow_state(&self, order: &ReservationOrder) -> Result<EscrowState, Transient> {
        let (time, record) = self.chain.reservation(&order.payment_id, &order.escrow.contract).await?;
        Ok(EscrowState::of(record.as_ref(), order, time))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.chain.delivery_state(order).await
    }

    async fn ready_to_be_paid(&self, order: &ReservationOrder) -> Result<(), Transient> {
        let made = self.chain.make_payout_account(&order.escrow.contract, &order.asset).await;
        made.map_err(PerformError::into_transient)
    }

    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<Trial, Transient> {
        Trial::of(self.chain.try_delivery(order).await)
    }

    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, Transient> {
        self.chain.deliver(order).await.map_err(PerformError::into_transient)
    }

    async fn release(&self, order: &ReservationOrder, attestation: &str) -> Result<String, Transient> {
        let released = self.chain.release(&order.payment_id, &order.escrow, attestation).await;
        released.map_err(PerformError::into_transient)
    }

    async fn next_block(&self) {
        self.chain.node().next_block().await;
    }
}
