//! Solana chains as a verifier sees them.

use std::sync::Arc;

use async_trait::async_trait;
use ed25519_dalek::{Signer, SigningKey};

use events::{ChainId, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::{
    keys,
    node::Node,
    program::{key, statement_digest},
    reads::{neutral, unusable},
};
use crate::{
    escrow::Record,
    verifier::{Destination, Source, Verifier},
};

/// A Solana chain with the key of its releaser.
struct Releaser {
    node: Node,
    key: SigningKey,
}

impl Verifier {
    /// The verifier with the Solana chains of `nodes` besides: as destinations, and as sources when it has the releaser's
    /// key.
    pub fn with_solana(self, nodes: impl IntoIterator<Item = Node>, releaser: Option<SigningKey>) -> Self {
        nodes.into_iter().fold(self, |verifier, node| {
            let verifier = verifier.with_destination(Arc::new(node.clone()));
            match &releaser {
                Some(key) => verifier.with_source(Arc::new(Releaser { node, key: key.clone() })),
                None => verifier,
            }
        })
    }
}

#[async_trait]
impl Source for Releaser {
    fn chain_id(&self) -> &ChainId {
        self.node.chain_id()
    }

    fn releaser(&self) -> String {
        keys::account(&self.key)
    }

    fn trusts_escrow(&self, contract: &str) -> bool {
        self.node.config().trusts_escrow(contract)
    }

    async fn escrow_record(&self, payment_id: &PaymentId, contract: &str) -> Result<Option<Record>, Transient> {
        let program = key(contract).map_err(unusable)?;
        let found = self.node.settled_escrow(payment_id, &program).await?;
        found.record.map(|record| neutral(&self.node, &record)).transpose()
    }

    fn sign(&self, statement: &Statement, plan: &EscrowPlan) -> Result<String, String> {
        let program = key(&plan.contract).map_err(|error| error.to_string())?;
        let digest = statement_digest(statement, &self.node.domain(&program)).map_err(|error| error.to_string())?;
        Ok(format!("0x{}", hex::encode(self.key.sign(&digest.0).to_bytes())))
    }
}

#[async_trait]
impl Destination for Node {
    fn chain_id(&self) -> &ChainId {
        self.chain_id()
    }

    fn trusts_proxy(&self, contract: &str) -> bool {
        self.config().trusts_proxy(contract)
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.delivery_state(order).await
    }
}
