//! A verifier's view of a Solana chain, and its signature.

use async_trait::async_trait;
use ed25519_dalek::{Signer, SigningKey};

use chains::{
    config::CommonConfig,
    escrow::EscrowRecord,
    verifier::{AttestingChain, VerifiedChain},
};
use events::{Account, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::{
    deliveries::Deliveries,
    escrows::Escrows,
    node::Node,
    program::{holder, key as program_key, statement_digest},
};

#[async_trait]
impl VerifiedChain for Node {
    fn config(&self) -> &CommonConfig {
        &self.config().common
    }

    async fn escrow_record(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<Option<EscrowRecord>, Transient> {
        let program = program_key(contract)?;
        let escrows = Escrows::of(self);
        let found = escrows.settled(payment_id, &program).await?;
        found.record.map(|record| escrows.to_record(&record)).transpose()
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        Deliveries::of(self).state(order).await
    }
}

impl AttestingChain for Node {
    type Key = SigningKey;

    fn account(key: &SigningKey) -> Account {
        holder(key.verifying_key().as_bytes())
    }

    fn sign(&self, key: &SigningKey, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient> {
        let program = program_key(&plan.contract)?;
        let digest = statement_digest(statement, &self.domain(&program))?;
        Ok(format!("0x{}", hex::encode(key.sign(&digest.0).to_bytes())))
    }
}
