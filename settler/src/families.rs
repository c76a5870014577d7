//! The settler's account on each of its chains, whatever their family.

use std::sync::Arc;

use alloy::signers::local::PrivateKeySigner;

use events::{ChainId, Family};

use crate::{
    chain::DeliveryChain, config::Config, evm::EvmChain, quoting::Chains, solana::SolanaChain, tron::TronChain,
};

/// Why the chains of a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An EVM chain's configuration cannot be meant.
    #[error(transparent)]
    Evm(Box<chains_evm::node::ConnectError>),
    /// There is an EVM chain, and no private key for it, or a text that is none.
    #[error("evm_private_key must be 64 hex digits of a key")]
    EvmKey,
    /// A Solana chain's configuration cannot be meant.
    #[error(transparent)]
    Solana(Box<chains_solana::node::ConnectError>),
    /// There is a Solana chain, and no keypair for it.
    #[error("solana_private_key is needed for {0}")]
    NoSolanaKey(ChainId),
    /// The keypair is none.
    #[error("solana_private_key {0}")]
    SolanaKey(chains_solana::keys::KeypairError),
    /// A Tron chain's configuration cannot be meant.
    #[error(transparent)]
    Tron(Box<chains_tron::node::ConnectError>),
    /// There is a Tron chain, and no private key for it, or a text that is none.
    #[error("tron_private_key must be 64 hex digits of a key")]
    TronKey,
    /// The settler has no account on chains of this family.
    #[error("{0} is of no family that is settled on")]
    Family(ChainId),
}

/// The chains of `config`, each with the account of its family's key. Nothing is sent before the first use.
///
/// # Errors
/// See [`Error`].
pub fn connect(config: &Config) -> Result<Chains, Error> {
    let mut chains = Chains::new();
    for chain in &config.chains {
        let connected: Arc<dyn DeliveryChain> = match chain.chain_id.family() {
            Some(Family::Evm) => {
                let key = config.evm_private_key.as_ref().and_then(|key| key.parse::<PrivateKeySigner>().ok());
                let node = chains_evm::node::Node::connect(chain).map_err(|error| Error::Evm(Box::new(error)))?;
                Arc::new(EvmChain::new(chains_evm::settler::SettlerChain::new(node, key.ok_or(Error::EvmKey)?)))
            }
            Some(Family::Solana) => {
                let key = config.solana_private_key.as_ref();
                let key = key.ok_or_else(|| Error::NoSolanaKey(chain.chain_id.clone()))?;
                let key = chains_solana::keys::keypair(key).map_err(Error::SolanaKey)?;
                let node = chains_solana::node::Node::connect(chain).map_err(|error| Error::Solana(Box::new(error)))?;
                Arc::new(SolanaChain::new(chains_solana::settler::SettlerChain::new(node, key)))
            }
            Some(Family::Tron) => {
                let key = config.tron_private_key.as_ref().and_then(|key| key.parse::<PrivateKeySigner>().ok());
                let node = chains_tron::node::Node::connect(chain).map_err(|error| Error::Tron(Box::new(error)))?;
                Arc::new(TronChain::new(chains_tron::settler::SettlerChain::new(node, key.ok_or(Error::TronKey)?)))
            }
            None => return Err(Error::Family(chain.chain_id.clone())),
        };
        chains.insert(chain.chain_id.clone(), connected);
    }
    Ok(chains)
}
