//! Tron chains as a verifier sees them.

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;

use chains::{
    config::ChainConfig,
    escrow::EscrowRecord,
    verifier::{AttestingChain, VerifiedChain},
};
use escrow_abi::attest;
use events::{PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::{
    address::{address, text},
    node::Node,
    reads::statement_digest,
};

#[async_trait]
impl VerifiedChain for Node {
    fn config(&self) -> &ChainConfig {
        self.config()
    }

    async fn escrow_record(&self, payment_id: &PaymentId, contract: &str) -> Result<Option<EscrowRecord>, Transient> {
        let found = self.settled_escrow(payment_id, contract).await?;
        Ok(found.record.map(|record| record.escrow))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.delivery_state(order).await
    }
}

impl AttestingChain for Node {
    type Key = PrivateKeySigner;

    fn account(key: &PrivateKeySigner) -> String {
        text(key.address())
    }

    fn sign(&self, key: &PrivateKeySigner, statement: &Statement, plan: &EscrowPlan) -> Result<String, String> {
        let escrow = address(&plan.contract).map_err(|error| error.to_string())?;
        let digest = statement_digest(statement, u64::from(self.reference()), escrow);
        let digest = digest.map_err(|error| error.to_string())?;
        attest::sign_digest(key, digest).map_err(|error| error.to_string())
    }
}
