//! An auditor's connections: NATS with read-only credentials, chains by public RPC.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context, Result};
use async_nats::ConnectOptions;

use chains::evm::node::Node;
use events::{ChainId, raw::RawReader};

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
pub fn nodes(config: &AuditorConfig) -> Result<HashMap<ChainId, Node>> {
    let nodes = config.chains.iter().map(|chain| Ok((chain.chain_id.clone(), Node::connect(chain)?)));
    nodes.collect()
}
