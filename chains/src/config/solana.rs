//! Configuration of a Solana chain.

use events::{AssetId, ChainId};

use super::{ChainTable, CommonConfig, Error};

/// Mint of wrapped SOL, of SPL Token.
pub const NATIVE_MINT: &str = "So11111111111111111111111111111111111111112";
const SIGNATURE_DOMAIN_VERSION: u8 = 1;

/// A Solana chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolanaConfig {
    /// What chains of every family have.
    pub common: CommonConfig,
    /// The genesis hash of the cluster, Base58, which every signature binds. The node's and the program's must be the same.
    pub signature_cluster_id: String,
    /// Version of the domain of what is signed, as the program was initialised with.
    pub signature_domain_version: u8,
}

impl SolanaConfig {
    pub(super) fn read(mut table: ChainTable) -> Result<Self, Error> {
        let signature_cluster_id = table.require("signature_cluster_id")?;
        let signature_domain_version = table.take("signature_domain_version")?.unwrap_or(SIGNATURE_DOMAIN_VERSION);
        let ws_url = table.take("ws_url")?;
        let mut common = CommonConfig { ws_url, ..table.rest()? };
        for asset in &mut common.assets {
            let id = &asset.asset_identifier;
            if asset.wraps.is_none() && id.namespace() == "token" && id.reference() == NATIVE_MINT {
                asset.wraps = sol(&common.chain_id);
            }
        }
        Ok(Self { common, signature_cluster_id, signature_domain_version })
    }
}

/// SOL on this chain.
fn sol(chain: &ChainId) -> Option<AssetId> {
    format!("{chain}/slip44:501").parse().ok()
}
