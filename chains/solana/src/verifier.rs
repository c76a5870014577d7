//! A verifier's view of a Solana chain, and its signature.

use async_trait::async_trait;

use chains::{
    config::CommonConfig,
    escrow::EscrowRecord,
    verifier::{AttestingChain, VerifiedChain},
};
use events::{Account, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use signer::Ed25519Key;

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

#[async_trait]
impl AttestingChain for Node {
    type Key = Ed25519Key;

    fn account(key: &Ed25519Key) -> Account {
        holder(&key.public())
    }

    async fn sign(&self, key: &Ed25519Key, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient> {
        let program = program_key(&plan.contract)?;
        let digest = statement_digest(statement, &self.domain(&program))?;
        Ok(format!("0x{}", hex::encode(key.sign(&digest.0).await?)))
    }
}
