//! EVM chains as a verifier sees them.

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;

use chains::{
    config::ChainConfig,
    escrow::EscrowRecord,
    verifier::{AttestingChain, VerifiedChain},
};
use escrow_abi::contracts::{address, text};
use events::{PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::{attest, node::Node};

#[async_trait]
impl VerifiedChain for Node {
    fn config(&self) -> &ChainConfig {
        self.config()
    }

    async fn escrow_record(&self, payment_id: &PaymentId, contract: &str) -> Result<Option<EscrowRecord>, Transient> {
        Ok(self.escrows().settled(payment_id, contract).await?.1)
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.deliveries().state(order).await
    }
}

impl AttestingChain for Node {
    type Key = PrivateKeySigner;

    fn account(key: &PrivateKeySigner) -> String {
        text(key.address())
    }

    fn sign(&self, key: &PrivateKeySigner, statement: &Statement, plan: &EscrowPlan) -> Result<String, String> {
        let escrow = address(&plan.contract).map_err(|error| error.to_string())?;
        attest::sign_statement(key, statement, self.evm_id(), escrow).map_err(|error| error.to_string())
    }
}
