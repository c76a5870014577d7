//! Readiness of a Solana cluster: what a circuit breaker is told of its node and program.

use async_trait::async_trait;

use chains::readiness::{Look, ReadinessProbe};
use events::ChainId;
use gateway_program::{account::Config, host::config_address, message::DOMAIN_VERSION};
use sagas::ports::Transient;

use super::{
    node::{Commitment, Node},
    program::key,
};

#[async_trait]
impl ReadinessProbe for Node {
    fn chain_id(&self) -> &ChainId {
        Node::chain_id(self)
    }

    async fn look(&self, contracts: bool) -> Result<Look, Transient> {
        if !self.is_of_its_cluster().await? {
            return Ok(Look::OtherChain);
        }
        let head = self.head().await?;
        if contracts {
            let program = key(&self.config().common.escrow_contract)?;
            let found = self.accounts(&[program, config_address(&program).key], Commitment::Confirmed, 0).await?;
            if !found.account(0).is_some_and(|program| program.executable) {
                return Ok(Look::ContractMissing);
            }
            let config = found.account(1).filter(|config| config.owner == program);
            let config = config.and_then(|config| Config::from_bytes(&config.data));
            let is_ours = config.is_some_and(|config| {
                config.cluster_id == self.cluster_id() && config.domain_version == DOMAIN_VERSION
            });
            if !is_ours {
                return Ok(Look::ContractUnreadable);
            }
        }
        Ok(Look::Head(head))
    }
}
