//! Configuration of `gw verifier`.

use std::{net::SocketAddr, path::Path};

use serde::Deserialize;

use chains::config::ChainConfig;

use super::{Error, Secret, source::Source, validation};

/// Configuration of `gw verifier`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierConfig {
    /// Address to listen on.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// Private key of the EVM chains' `releaser`, hex with 0x. Without it those chains are destinations only.
    pub releaser_key: Option<Secret>,
    /// Keypair of the Solana chains' `releaser`: Base58 of its 64 bytes, or the JSON array of `solana-keygen`. Without it
    /// those chains are destinations only.
    pub solana_releaser_key: Option<Secret>,
    /// Private key of the Tron chains' `releaser`, hex with 0x. Without it those chains are destinations only.
    pub tron_releaser_key: Option<Secret>,
    /// The chains it reads.
    pub chains: Vec<ChainConfig>,
}

impl VerifierConfig {
    /// Reads the file at `path` with the environment's overrides and checks every value.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::read(path, Source::environment())
    }

    pub(super) fn read(path: &Path, variables: Vec<(String, String)>) -> Result<Self, Error> {
        // `GW_VERIFIER__…` is the gateway's section of that name.
        let is_ours = |key: &str| !key.starts_with('_');
        let config: Self = Source { prefix: "GW_VERIFIER_", is_ours }.extract(path, variables)?;
        validation::verifier(&config)?;
        Ok(config)
    }
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8090))
}
