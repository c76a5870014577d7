//! Readiness of an EVM chain: what a circuit breaker is told of its node and contracts.

use async_trait::async_trait;

use chains::readiness::{self, Look, ReadinessProbe};
use escrow_abi::contracts::address;
use events::ChainId;
use sagas::ports::Transient;

use super::{
    escrows::Escrows,
    node::{At, Node},
    query::Query,
};

#[async_trait]
impl ReadinessProbe for Node {
    fn chain_id(&self) -> &ChainId {
        Node::chain_id(self)
    }

    async fn look(&self, contracts: bool) -> Result<Look, Transient> {
        if !self.is_of_its_chain().await? {
            return Ok(Look::OtherChain);
        }
        let head = self.head().await?;
        if contracts {
            let common = &self.config().common;
            match Escrows::of(self).is_readable(&common.escrow_contract).await? {
                Some(true) => {}
                Some(false) => return Ok(Look::ContractUnreadable),
                None => return Ok(Look::ContractMissing),
            }
            if let Some(has) = Escrows::of(self).has_reassignments(&common.escrow_contract).await?
                && self.note_reassignments(!has)
            {
                readiness::say_reassignments(Node::chain_id(self), &common.escrow_contract, has);
            }
            let proxy = address(&common.fulfillment_proxy)?;
            if Query::of(self).code(proxy, At::Block(head)).await?.is_empty() {
                return Ok(Look::ContractMissing);
            }
        }
        Ok(Look::Head(head.number))
    }
}
