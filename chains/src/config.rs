//! Configuration of a chain, by the chain's family.
//!
//! A chain is a table of which `chain_id` decides the family, and the family which other keys there may be: those of
//! [`CommonConfig`], and the family's own, [`EvmConfig`], [`SolanaConfig`] or [`TronConfig`]. A key of another family is not
//! known, and is refused by name together with the chain's.

mod api_key;
mod common;
mod evm;
mod nodes;
mod solana;
mod table;
mod tron;

use serde::{Deserialize, Deserializer, de};

use events::{AssetId, Family};

pub use self::{
    api_key::ApiKey,
    common::CommonConfig,
    evm::{EvmConfig, GasConfig},
    nodes::{NODES_MAX, NodeConfig},
    solana::{NATIVE_MINT, SolanaConfig},
    table::{ChainTable, Error},
    tron::{DEPOSIT_RETURNS_DAILY_MAX, TronConfig},
};

/// One chain that a gateway, a verifier, a settler or an auditor is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainConfig {
    /// Of namespace `eip155`.
    Evm(EvmConfig),
    /// Of namespace `solana`.
    Solana(SolanaConfig),
    /// Of namespace `tron`.
    Tron(TronConfig),
}

impl ChainConfig {
    /// What chains of every family have.
    pub fn common(&self) -> &CommonConfig {
        match self {
            Self::Evm(chain) => &chain.common,
            Self::Solana(chain) => &chain.common,
            Self::Tron(chain) => &chain.common,
        }
    }

    /// The same, to change.
    pub fn common_mut(&mut self) -> &mut CommonConfig {
        match self {
            Self::Evm(chain) => &mut chain.common,
            Self::Solana(chain) => &mut chain.common,
            Self::Tron(chain) => &mut chain.common,
        }
    }

    /// Its family.
    pub fn family(&self) -> Family {
        match self {
            Self::Evm(_) => Family::Evm,
            Self::Solana(_) => Family::Solana,
            Self::Tron(_) => Family::Tron,
        }
    }
}

impl TryFrom<ChainTable> for ChainConfig {
    type Error = Error;

    fn try_from(table: ChainTable) -> Result<Self, Error> {
        match table.family() {
            Family::Evm => EvmConfig::read(table).map(Self::Evm),
            Family::Solana => SolanaConfig::read(table).map(Self::Solana),
            Family::Tron => TronConfig::read(table).map(Self::Tron),
        }
    }
}

impl<'de> Deserialize<'de> for ChainConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ChainTable::deserialize(deserializer)?.try_into().map_err(de::Error::custom)
    }
}

/// An asset that is served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssetConfig {
    /// CAIP-19 id.
    pub asset_identifier: AssetId,
    /// Ticker symbol, for display.
    pub symbol: String,
    /// Decimal places, for display.
    pub decimals: u8,
    /// The chain's own coin, where the asset is its wrapped form: whoever holds the coin alone is shown how to wrap it. On Solana
    /// it is said of the native mint without a key.
    #[serde(default)]
    pub wraps: Option<AssetId>,
}

/// When a block counts as settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "DepthText")]
pub enum Depth {
    /// The chain's own finality tag. `safe` is not offered: providers differ in what they mean by it.
    Finalized,
    /// So many blocks on top, 0 for inclusion alone.
    Confirmations(u64),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DepthText {
    Number(u64),
    Word(String),
}

impl TryFrom<DepthText> for Depth {
    type Error = &'static str;

    fn try_from(text: DepthText) -> Result<Self, Self::Error> {
        match text {
            DepthText::Number(blocks) => Ok(Self::Confirmations(blocks)),
            DepthText::Word(word) if word == "finalized" => Ok(Self::Finalized),
            DepthText::Word(_) => Err("required_depth must be \"finalized\" or a number of blocks"),
        }
    }
}

#[cfg(test)]
mod tests;
