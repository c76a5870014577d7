//! Solana chains as a verifier sees them.

use async_trait::async_trait;
use ed25519_dalek::{Signer, SigningKey};

use chains::{
    config::ChainConfig,
    escrow::EscrowRecord,
    verifier::{AttestingChain, VerifiedChain},
};
use events::{PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::{
    keys,
    node::Node,
    program::{key as program_key, statement_digest},
    reads::{neutral, unusable},
};

#[async_trait]
impl VerifiedChain for Node {
    fn config(&self) -> &ChainConfig {
        self.config()
    }

    async fn escrow_record(&self, payment_id: &PaymentId, contract: &str) -> Result<Option<EscrowRecord>, Transient> {
        let program = program_key(contract).map_err(unusable)?;
        let found = self.settled_escrow(payment_id, &program).await?;
        found.record.map(|record| neutral(self, &record)).transpose()
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.delivery_state(order).await
    }
}

impl AttestingChain for Node {
    type Key = SigningKey;

    fn account(key: &SigningKey) -> String {
        keys::account(key)
    }

    fn sign(&self, key: &SigningKey, statement: &Statement, plan: &EscrowPlan) -> Result<String, String> {
        let program = program_key(&plan.contract).map_err(|error| error.to_string())?;
        let digest = statement_digest(statement, &self.domain(&program)).map_err(|error| error.to_string())?;
        Ok(format!("0x{}", hex::encode(key.sign(&digest.0).to_bytes())))
    }
}
