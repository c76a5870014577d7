//! EVM chains as a verifier sees them.

use std::sync::Arc;

use alloy::signers::local::PrivateKeySigner;
use async_trait::async_trait;

use events::{ChainId, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};

use super::{
    attest,
    contracts::{address, text},
    node::Node,
};
use crate::{
    escrow::Record,
    verifier::{Destination, Source, Verifier},
};

/// An EVM chain with the key of its releaser.
#[derive(Debug, Clone)]
struct Releaser {
    node: Node,
    signer: PrivateKeySigner,
}

impl Verifier {
    /// The verifier with the EVM chains of `nodes` besides: as destinations, and as sources when it has the releaser's key.
    pub fn with_evm(self, nodes: impl IntoIterator<Item = Node>, releaser: Option<PrivateKeySigner>) -> Self {
        nodes.into_iter().fold(self, |verifier, node| {
            let verifier = verifier.with_destination(Arc::new(node.clone()));
            match &releaser {
                Some(signer) => verifier.with_source(Arc::new(Releaser { node, signer: signer.clone() })),
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
        text(self.signer.address())
    }

    fn trusts_escrow(&self, contract: &str) -> bool {
        self.node.config().trusts_escrow(contract)
    }

    async fn escrow_record(&self, payment_id: &PaymentId, contract: &str) -> Result<Option<Record>, Transient> {
        Ok(self.node.settled_escrow(payment_id, contract).await?.1)
    }

    fn sign(&self, statement: &Statement, plan: &EscrowPlan) -> Result<String, String> {
        let escrow = address(&plan.contract).map_err(|error| error.to_string())?;
        attest::sign_statement(&self.signer, statement, self.node.evm_id(), escrow).map_err(|error| error.to_string())
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
