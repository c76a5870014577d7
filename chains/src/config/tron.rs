//! Configuration of a Tron chain.

use events::{Account, Hash32};

use super::{ApiKey, ChainTable, CommonConfig, Error, NodeConfig};
use crate::nodes::origin;

/// How often within 24 hours a gateway gives back what came to deposit addresses, where the configuration does not say.
pub const DEPOSIT_RETURNS_DAILY_MAX: usize = 256;

/// A Tron chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TronConfig {
    /// What chains of every family have.
    pub common: CommonConfig,
    /// The Permit2 that the escrow was deployed with (ADR 156); payers sign for none where it is not set.
    pub permit2: Option<Account>,
    /// The hash (keccak-256) of that Permit2's code, where it is another compilation than this version's; for `gw deploy` and
    /// `gw doctor`, which compare it.
    pub permit2_code: Option<Hash32>,
    /// The factory of deposit addresses (ADR 155); none are given where it is not set.
    pub deposit_address_factory: Option<Account>,
    /// How often within 24 hours a gateway gives back what came to deposit addresses: each return costs it some 10 TRX.
    pub deposit_returns_daily_max: usize,
    /// The provider's API key, sent as `TRON-PRO-API-KEY` to `rpc_url`, or the first of `rpc_urls` and those of the same
    /// origin. Another provider's node has its own key beside its address.
    pub api_key: Option<ApiKey>,
}

impl TronConfig {
    pub(super) fn read(mut table: ChainTable) -> Result<Self, Error> {
        let api_key = table.take("api_key")?;
        let (permit2, permit2_code) = (table.take_account("permit2")?, table.take("permit2_code")?);
        if permit2.is_none() && permit2_code.is_some() {
            return Err(table.error("permit2_code: is of the code of `permit2`, which is not set".to_owned()));
        }
        let deposit_address_factory = table.take_account("deposit_address_factory")?;
        let deposit_returns_daily_max = table.take("deposit_returns_daily_max")?.unwrap_or(DEPOSIT_RETURNS_DAILY_MAX);
        Ok(Self {
            api_key,
            permit2,
            permit2_code,
            deposit_address_factory,
            deposit_returns_daily_max,
            common: table.rest()?,
        })
    }

    /// Its nodes, each with the key that goes along. A key of the chain goes to nodes of one origin alone: another provider's
    /// has its own.
    pub fn nodes(&self) -> Vec<NodeConfig> {
        let mut nodes = self.common.nodes();
        let first = nodes.first().and_then(|node| origin(&node.url));
        for node in &mut nodes {
            if node.api_key.is_none() && origin(&node.url) == first {
                node.api_key.clone_from(&self.api_key);
            }
        }
        nodes
    }
}
