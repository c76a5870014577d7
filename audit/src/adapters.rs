//! The adapters of the chain families, as an auditor needs them: a chain's node, and the check of a journaled transaction.

use std::{collections::HashMap, sync::Arc};

use chains::{auditor::Audit, config::ChainConfig};
use config::AuditorConfig;
use events::{ChainId, Family, event::TransactionPrepared};

/// A chain's configuration cannot be meant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Of an EVM chain.
    #[error(transparent)]
    Evm(#[from] chains_evm::node::ConnectError),
    /// Of a Solana cluster.
    #[error(transparent)]
    Solana(#[from] chains_solana::node::ConnectError),
    /// Of a Tron chain.
    #[error(transparent)]
    Tron(#[from] chains_tron::node::ConnectError),
}

/// The chains of the configuration.
///
/// # Errors
/// See [`Error`].
pub fn nodes(config: &AuditorConfig) -> Result<HashMap<ChainId, Arc<dyn Audit>>, Error> {
    let nodes = config.chains.iter().map(|chain| Ok((chain.common().chain_id.clone(), node(chain)?)));
    nodes.collect()
}

fn node(chain: &ChainConfig) -> Result<Arc<dyn Audit>, Error> {
    Ok(match chain {
        ChainConfig::Evm(chain) => Arc::new(chains_evm::auditor::Auditor::new(chains_evm::node::Node::connect(chain)?)),
        ChainConfig::Solana(chain) => {
            Arc::new(chains_solana::auditor::Auditor::new(chains_solana::node::Node::connect(chain)?))
        }
        ChainConfig::Tron(chain) => {
            Arc::new(chains_tron::auditor::Auditor::new(chains_tron::node::Node::connect(chain)?))
        }
    })
}

/// A journaled transaction must be the one whose hash was journaled with it; otherwise the reason. No chain is asked.
///
/// # Errors
/// What is wrong.
pub fn check_prepared(transaction: &TransactionPrepared) -> Result<(), String> {
    match transaction.chain_id.family() {
        Some(Family::Evm) => chains_evm::auditor::check_prepared(transaction),
        Some(Family::Solana) => chains_solana::auditor::check_prepared(transaction),
        Some(Family::Tron) => chains_tron::auditor::check_prepared(transaction),
        None => Err(format!("{} has no transactions that can be checked", transaction.chain_id)),
    }
}
