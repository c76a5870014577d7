//! The chain registry of a settler: its account on each of its chains, found by chain id, whatever the family.

use std::{collections::HashMap, sync::Arc};

use alloy::signers::local::PrivateKeySigner;

use chains::{config::ChainConfig, settler::DeliveryChain};
use events::ChainId;

use crate::config::Config;

/// The chains a settler works on, by chain id.
pub type Chains = HashMap<ChainId, Arc<dyn DeliveryChain>>;

/// Why the chains of a configuration cannot be connected to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration of an EVM chain breaks a rule.
    #[error(transparent)]
    Evm(Box<chains_evm::node::ConnectError>),
    /// An EVM chain is configured, and its private key is missing or malformed.
    #[error("evm_private_key must be 64 hex digits of a key")]
    EvmKey,
    /// The configuration of a Solana chain breaks a rule.
    #[error(transparent)]
    Solana(Box<chains_solana::node::ConnectError>),
    /// A Solana chain is configured, and its keypair is missing.
    #[error("solana_private_key is needed for {0}")]
    NoSolanaKey(ChainId),
    /// The keypair is malformed.
    #[error("solana_private_key {0}")]
    SolanaKey(chains_solana::keys::KeypairError),
    /// The configuration of a Tron chain breaks a rule.
    #[error(transparent)]
    Tron(Box<chains_tron::node::ConnectError>),
    /// A Tron chain is configured, and its private key is missing or malformed.
    #[error("tron_private_key must be 64 hex digits of a key")]
    TronKey,
}

/// The chains of `config`, each with the account of its family's key. No node is called before the first use.
///
/// # Errors
/// See [`Error`].
pub fn connect(config: &Config) -> Result<Chains, Error> {
    let mut chains = Chains::new();
    for chain in &config.chains {
        let connected: Arc<dyn DeliveryChain> = match chain {
            ChainConfig::Evm(chain) => {
                let key = config.evm_private_key.as_ref().and_then(|key| key.parse::<PrivateKeySigner>().ok());
                let node = chains_evm::node::Node::connect(chain).map_err(|error| Error::Evm(Box::new(error)))?;
                Arc::new(chains_evm::settler::SettlerChain::new(node, key.ok_or(Error::EvmKey)?))
            }
            ChainConfig::Solana(chain) => {
                let key = config.solana_private_key.as_ref();
                let key = key.ok_or_else(|| Error::NoSolanaKey(chain.common.chain_id.clone()))?;
                let key = chains_solana::keys::keypair(key).map_err(Error::SolanaKey)?;
                let node = chains_solana::node::Node::connect(chain).map_err(|error| Error::Solana(Box::new(error)))?;
                Arc::new(chains_solana::settler::SettlerChain::new(node, key))
            }
            ChainConfig::Tron(chain) => {
                let key = config.tron_private_key.as_ref().and_then(|key| key.parse::<PrivateKeySigner>().ok());
                let node = chains_tron::node::Node::connect(chain).map_err(|error| Error::Tron(Box::new(error)))?;
                Arc::new(chains_tron::settler::SettlerChain::new(node, key.ok_or(Error::TronKey)?))
            }
        };
        chains.insert(chain.common().chain_id.clone(), connected);
    }
    Ok(chains)
}
