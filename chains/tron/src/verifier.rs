//! A verifier's view of a Tron chain, and its signature.

use async_trait::async_trait;

use chains::{
    config::CommonConfig,
    escrow::EscrowRecord,
    verifier::{AttestingChain, VerifiedChain},
};
use escrow_abi::attest;
use events::{Account, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use signer::Secp256k1Key;

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

#[async_trait]
impl AttestingChain for Node {
    type Key = Secp256k1Key;

    fn account(key: &Secp256k1Key) -> Account {
        account_of(key)
    }

    async fn sign(&self, key: &Secp256k1Key, statement: &Statement, plan: &EscrowPlan) -> Result<String, Transient> {
        let escrow = address(&plan.contract)?;
        let preimage = attest::statement_preimage(statement, u64::from(self.reference()), escrow, address)?;
        Ok(attest::sign_preimage(key, &preimage).await?)
    }
}
