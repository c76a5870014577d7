//! Configuration of a Tron chain.

use super::{ApiKey, ChainTable, CommonConfig, Error, NodeConfig};
use crate::nodes::origin;

/// A Tron chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TronConfig {
    /// What chains of every family have.
    pub common: CommonConfig,
    /// The provider's API key, sent as `TRON-PRO-API-KEY` to `rpc_url`, or the first of `rpc_urls` and those of the same
    /// origin. Another provider's node has its own key beside its address.
    pub api_key: Option<ApiKey>,
}

impl TronConfig {
    pub(super) fn read(mut table: ChainTable) -> Result<Self, Error> {
        Ok(Self { api_key: table.take("api_key")?, common: table.rest()? })
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
