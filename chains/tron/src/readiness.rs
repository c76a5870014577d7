//! Readiness of a Tron chain: what a circuit breaker is told of its node and contracts.

use async_trait::async_trait;

use chains::readiness::{self, Look, ReadinessProbe};
use escrow_abi::artefacts;
use events::ChainId;
use sagas::ports::Transient;

use super::{address::address, escrows::Escrows, node::Node};

#[async_trait]
impl ReadinessProbe for Node {
    fn chain_id(&self) -> &ChainId {
        &self.config().common.chain_id
    }

    async fn look(&self, contracts: bool) -> Result<Look, Transient> {
        if let Err(fault) = self.check().await {
            return if fault.is_misconfigured() { Ok(Look::OtherChain) } else { Err(fault) };
        }
        let head = self.head().await?;
        if contracts {
            let common = &self.config().common;
            let Some(escrow) = self.nodes().contract_code(address(&common.escrow_contract)?).await? else {
                return Ok(Look::ContractMissing);
            };
            if self.nodes().contract_code(address(&common.fulfillment_proxy)?).await?.is_none() {
                return Ok(Look::ContractMissing);
            }
            if !Escrows::of(self).is_readable(&common.escrow_contract).await? {
                return Ok(Look::ContractUnreadable);
            }
            let takes = artefacts::takes_reassignments(&escrow.runtime);
            if self.note_reassignments(!takes) {
                readiness::say_reassignments(&common.chain_id, &common.escrow_contract, takes);
            }
        }
        Ok(Look::Head(head.number))
    }
}
