//! Readiness of a Tron chain: what a circuit breaker is told of its node and contracts.

use async_trait::async_trait;

use chains::readiness::{Look, ReadinessProbe};
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
            for contract in [&common.escrow_contract, &common.fulfillment_proxy] {
                if self.nodes().contract_code(address(contract)?).await?.is_none() {
                    return Ok(Look::ContractMissing);
                }
            }
            if !Escrows::of(self).is_readable(&common.escrow_contract).await? {
                return Ok(Look::ContractUnreadable);
            }
        }
        Ok(Look::Head(head.number))
    }
}
