//! An auditor's connections: NATS with read-only credentials, chains by public RPC.

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use async_nats::ConnectOptions;

use chains::{auditor::Audit, config::ChainConfig, evm, solana, tron};
use events::{ChainId, Family, raw::RawReader};

use crate::config::{AuditorConfig, AuditorNatsConfig};

/// How long one read of a stream tries.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the first connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A reader with the auditor's credentials.
///
/// # Errors
/// When the server cannot be reached now, or refuses.
pub async fn nats(config: &AuditorNatsConfig) -> Result<RawReader> {
    let servers: Vec<&str> = config.url.split(',').map(str::trim).collect();
    let client = ConnectOptions::with_user_and_password(config.user.clone(), config.password.expose().to_owned())
        .name("gw audit")
        .custom_inbox_prefix(config.inbox_prefix.clone())
        .connection_timeout(CONNECT_TIMEOUT)
        .connect(servers)
        .await
        .with_context(|| format!("connect to NATS at {} as {}", config.url, config.user))?;
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
        Some(Family::Evm) => Ok(Arc::new(evm::node::Node::connect(chain)?)),
        Some(Family::Solana) => Ok(Arc::new(solana::node::Node::connect(chain)?)),
        Some(Family::Tron) => Ok(Arc::new(tron::node::Node::connect(chain)?)),
        None => bail!("{} is of no family that can be audited", chain.chain_id),
    }
}
