//! The adapters of the chain families, as an auditor needs them: a chain's node, and the check of a journaled transaction.

use std::{collections::HashMap, fmt, sync::Arc};

use chains::{auditor::Audit, config::ChainConfig, verifier::VerifiedChain};
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

/// A chain that an auditor asks.
#[derive(Clone)]
pub struct AuditedChain {
    /// Whether it bears out what a stream says.
    pub audit: Arc<dyn Audit>,
    /// What is on it whatever a stream says, as a verifier sees it.
    pub verified: Arc<dyn VerifiedChain>,
}

impl fmt::Debug for AuditedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditedChain").field("audit", &self.audit).finish_non_exhaustive()
    }
}

/// The chains of the configuration.
///
/// # Errors
/// See [`Error`].
pub fn nodes(config: &AuditorConfig) -> Result<HashMap<ChainId, AuditedChain>, Error> {
    let nodes = config.chains.iter().map(|chain| Ok((chain.common().chain_id.clone(), node(chain)?)));
    nodes.collect()
}

fn node(chain: &ChainConfig) -> Result<AuditedChain, Error> {
    let (audit, verified): (Arc<dyn Audit>, Arc<dyn VerifiedChain>) = match chain {
        ChainConfig::Evm(chain) => {
            let node = chains_evm::node::Node::connect(chain)?;
            (Arc::new(chains_evm::auditor::Auditor::new(node.clone())), Arc::new(node))
        }
        ChainConfig::Solana(chain) => {
            let node = chains_solana::node::Node::connect(chain)?;
            (Arc::new(chains_solana::auditor::Auditor::new(node.clone())), Arc::new(node))
        }
        ChainConfig::Tron(chain) => {
            let node = chains_tron::node::Node::connect(chain)?;
            (Arc::new(chains_tron::auditor::Auditor::new(node.clone())), Arc::new(node))
        }
    };
    Ok(AuditedChain { audit, verified })
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
