//! A verifier's view of an EVM chain, and its signature.

use async_trait::async_trait;

use chains::{
    config::CommonConfig,
    escrow::{EscrowRecord, QuotedEscrow, QuotedRecord},
    verifier::{AttestingChain, VerifiedChain},
};
use escrow_abi::contracts::address;
use events::{Account, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use signer::Secp256k1Key;

use super::{attest, deliveries::Deliveries, escrows::Escrows, node::Node, transaction::account_of};

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
        Ok(Escrows::of(self).settled(payment_id, contract).await?.record)
    }

    async fn quoted_record(&self, quoted: &QuotedEscrow<'_>) -> Result<QuotedRecord, Transient> {
        Escrows::of(self).quoted(quoted).await.map(|(_, found)| found)
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
        Ok(attest::sign_statement(key, statement, self.evm_id(), escrow).await?)
    }
}
