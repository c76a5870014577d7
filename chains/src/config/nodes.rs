//! RPC nodes of a chain: their addresses, and which share of the questions each gets.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

use super::ApiKey;
use crate::nodes::origin;

/// Most nodes of one chain.
pub const NODES_MAX: usize = 16;
/// The greatest weight.
const WEIGHT_MAX: u32 = 1_000;

/// One node of a chain: a text, which is its address, or a table.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeConfig {
    /// Its address, in the form of `rpc_url`.
    pub url: String,
    /// Its share of the questions that one node can answer, beside the other nodes' shares: 1 to 1000.
    pub weight: u32,
    /// The provider's API key, sent as `TRON-PRO-API-KEY`; Tron only.
    pub api_key: Option<ApiKey>,
}

impl NodeConfig {
    /// The node at `url`, with the weight 1.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), weight: 1, api_key: None }
    }
}

impl fmt::Debug for NodeConfig {
    /// Paths and queries of providers hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeConfig").field("origin", &origin(&self.url)).field("weight", &self.weight).finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    url: String,
    #[serde(default = "weight")]
    weight: u32,
    #[serde(default)]
    api_key: Option<ApiKey>,
}

fn weight() -> u32 {
    1
}

/// A text or a table, of which the rule that it breaks is told by its own key.
struct Form;

impl<'de> de::Visitor<'de> for Form {
    type Value = NodeConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address, or a table of url, weight and api_key")
    }

    fn visit_str<E: de::Error>(self, url: &str) -> Result<NodeConfig, E> {
        Ok(NodeConfig::new(url))
    }

    fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<NodeConfig, M::Error> {
        let Table { url, weight, api_key } = Table::deserialize(de::value::MapAccessDeserializer::new(map))?;
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(de::Error::custom(format_args!("weight must be 1 to {WEIGHT_MAX}")));
        }
        Ok(NodeConfig { url, weight, api_key })
    }
}

impl<'de> Deserialize<'de> for NodeConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Form)
    }
}
