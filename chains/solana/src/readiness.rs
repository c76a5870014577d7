//! Readiness of a Solana cluster: what a circuit breaker is told of its node and program.

use async_trait::async_trait;

use chains::readiness::{self, Look, ReadinessProbe};
use events::ChainId;
use gateway_program::{
    Key,
    account::Config,
    host::{config_address, program_data_address},
    log,
    message::DOMAIN_VERSION,
};
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
            let has = self.program_says(&program, log::REASSIGN_SAID).await?;
            if self.note_reassignments(!has) {
                readiness::say_reassignments(Node::chain_id(self), &self.config().common.escrow_contract, has);
            }
        }
        Ok(Look::Head(head))
    }
}

impl Node {
    /// Whether the bytes of `program` hold `said`, which only versions of it write to the log that do what it tells of. A program that no
    /// upgradeable loader keeps is of no version that the gateway deploys, and counts as one that says nothing.
    pub(super) async fn program_says(&self, program: &Key, said: &str) -> Result<bool, Transient> {
        let said = said.as_bytes();
        let found = self.accounts(&[program_data_address(program).key], Commitment::Confirmed, 0).await?;
        Ok(found.account(0).is_some_and(|code| code.data.windows(said.len()).any(|bytes| bytes == said)))
    }
}
