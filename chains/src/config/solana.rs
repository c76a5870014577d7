//! What the configuration says of a Solana chain.

use super::{ChainTable, CommonConfig, Error};

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
        Ok(Self {
            signature_cluster_id: table.require("signature_cluster_id")?,
            signature_domain_version: table.take("signature_domain_version")?.unwrap_or(SIGNATURE_DOMAIN_VERSION),
            common: table.rest()?,
        })
    }
}
