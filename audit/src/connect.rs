//! An auditor's connections: NATS with read-only credentials, chains by public RPC.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};

use chains::{auditor::Audit, config::ChainConfig};
use events::{ChainId, Family, event::TransactionPrepared};
use journal_jetstream::{
    connection::{self, Identity},
    raw::RawReader,
};

use config::{AuditorConfig, AuditorNatsConfig};

/// How long one read of a stream tries.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the first connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A reader with the auditor's credentials.
///
/// # Errors
/// When the server cannot be reached now, or refuses.
pub async fn nats(config: &AuditorNatsConfig) -> Result<RawReader> {
    let ca_file = config.ca_file.as_deref();
    let servers = connection::servers(&config.url, ca_file)?;
    let client = Identity::in_file(&config.seed_file)?
        .options(ca_file)
        .name("gw audit")
        .custom_inbox_prefix(config.inbox_prefix.clone())
        .connection_timeout(CONNECT_TIMEOUT)
        .connect(servers)
        .await
        .with_context(|| format!("connect to NATS at {}", config.url))?;
    Ok(RawReader::new(client, READ_TIMEOUT))
}

/// The chains of the configuration.
///
/// # Errors
/// When a chain's configuration cannot be meant.
pub fn nodes(config: &AuditorConfig) -> Result<HashMap<ChainId, Arc<dyn Audit>>> {
    let nodes = config.chains.iter().map(|chain| Ok((chain.chain_id.clone(), node(chain)?)));
    nodes.collect()
}

fn node(chain: &ChainConfig) -> Result<Arc<dyn Audit>> {
    match chain.chain_id.family() {
        Some(Family::Evm) => Ok(Arc::new(chains_evm::node::Node::connect(chain)?)),
        Some(Family::Solana) => Ok(Arc::new(chains_solana::node::Node::connect(chain)?)),
        Some(Family::Tron) => Ok(Arc::new(chains_tron::node::Node::connect(chain)?)),
        None => bail!("{} is of no family that can be audited", chain.chain_id),
    }
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
