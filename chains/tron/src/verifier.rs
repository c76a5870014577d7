//! A verifier's view of a Tron chain, and its signature.

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;

use chains::{
    config::CommonConfig,
    escrow::EscrowRecord,
    verifier::{AttestingChain, VerifiedChain},
};
use escrow_abi::attest;
use events::{Account, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::{
    address::{account_of, address},
    deliveries::Deliveries,
    escrows::Escrows,
    node::Node,
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
        let found = Escrows::of(self).settled(payment_id, contract).await?;
        Ok(found.record.map(|record| record.escrow))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        Deliveries::of(self).state(order).await
    }
}

impl AttestingChain for Node {
    type Key = PrivateKeySigner;

    fn account(key: &PrivateKeySigner) -> Account {
        account_of(key)
    }

    fn sign(&self, key: &PrivateKeySigner, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient> {
        let escrow = address(&plan.contract)?;
        let digest = attest::statement_digest(statement, u64::from(self.reference()), escrow, address)?;
        attest::sign_digest(key, digest).map_err(Transient::misconfigured)
    }
}
