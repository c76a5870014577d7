//! Configuration of `gw verifier`.

use std::{net::SocketAddr, path::Path};

use serde::Deserialize;

use chains::config::ChainConfig;
use events::Did;

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
    /// What connections to it may hold on to.
    #[serde(default)]
    pub http: VerifierHttpConfig,
    /// Who asks.
    #[serde(default)]
    pub callers: CallersConfig,
    /// The chains it reads.
    pub chains: Vec<ChainConfig>,
}

/// `[http]` of a verifier: what connections to it may hold on to, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierHttpConfig {
    /// Connections open at the same time. For one more the idle one goes that has been so longest.
    pub connections_max: usize,
    /// How long the head of a connection's first request may take to arrive, in milliseconds.
    pub head_ms_max: u64,
    /// How long a connection may be idle between two requests, in milliseconds.
    pub idle_ms_max: u64,
    /// How long a body may take to arrive, in milliseconds.
    pub body_ms_max: u64,
    /// How long a caller may take nothing of its answer, in milliseconds.
    pub write_ms_max: u64,
}

impl Default for VerifierHttpConfig {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            head_ms_max: 5_000,
            idle_ms_max: 60_000,
            body_ms_max: 5_000,
            write_ms_max: 10_000,
        }
    }
}

/// `[callers]`: who is known, and how much each and all strangers together may ask.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallersConfig {
    /// Origins under which callers have configured this verifier: what they sign names one of them.
    pub origins: Vec<String>,
    /// Gateways, by the did:key of their `[gateway] key`.
    pub gateways: Vec<Did>,
    /// Settlers, by the did:key that they register with.
    pub settlers: Vec<Did>,
    /// Most seconds between the making of a signature and this verifier's clock, either way.
    pub signature_seconds_max: u64,
    /// Asks under way of each known caller: those that arrive, wait and are judged.
    pub asks_per_caller_max: usize,
    /// Judgements at work for known callers, all together.
    pub judgements_max: usize,
    /// Judgements at work for each known caller.
    pub judgements_per_caller_max: usize,
    /// Asks under way of all strangers together.
    pub anonymous_asks_max: usize,
    /// Judgements at work for strangers, and begun for them in a second; 0 serves none.
    pub anonymous_judgements_max: usize,
}

impl Default for CallersConfig {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            gateways: Vec::new(),
            settlers: Vec::new(),
            signature_seconds_max: 60,
            asks_per_caller_max: 64,
            judgements_max: 64,
            judgements_per_caller_max: 16,
            anonymous_asks_max: 64,
            anonymous_judgements_max: 8,
        }
    }
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
