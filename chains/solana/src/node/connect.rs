//! Connecting: what a configuration has to be, and over what the nodes are asked.

use std::{
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use url::Url;

use chains::{
    block_poller::BlockPoller,
    config::{Depth, NodeConfig, SolanaConfig},
    head_feed::{Dialect, HeadFeed, WsUrl},
};
use events::{ChainId, Family};
use gateway_program::{Hash, message::DOMAIN_VERSION};

use super::{Inner, Node};
use crate::{authorization::ClusterId, nodes::Nodes, program::base58, rpc::Rpc, transport::Transport};

/// Characters of the genesis hash in a CAIP-2 id.
const CHAIN_REFERENCE_CHARS: usize = 32;

/// Why a chain's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The chain is not of the Solana family.
    #[error("{0} is not a Solana chain")]
    Family(ChainId),
    /// The endpoint cannot be used.
    #[error("rpc_url of {chain_id} {reason}")]
    Url {
        /// The chain.
        chain_id: ChainId,
        /// What is wrong.
        reason: String,
    },
    /// The cluster is not named, or is not the chain.
    #[error("signature_cluster_id of {chain_id} must be the genesis hash whose first 32 characters the chain id has")]
    Cluster {
        /// The chain.
        chain_id: ChainId,
    },
    /// What is signed has another domain.
    #[error("signature_domain_version of {chain_id} must be {DOMAIN_VERSION}")]
    DomainVersion {
        /// The chain.
        chain_id: ChainId,
    },
    /// Only the cluster's own finality settles a slot.
    #[error("required_depth of {chain_id} must be \"finalized\"")]
    Depth {
        /// The chain.
        chain_id: ChainId,
    },
}

impl Node {
    /// A connection by `config`. Nothing is sent before the first use; then the node is asked for its genesis hash, and
    /// nothing else is asked of a node of another cluster.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration cannot be meant.
    pub fn connect(config: &SolanaConfig) -> Result<Self, ConnectError> {
        let chain_id = chain_of(config)?;
        let mut nodes = Vec::new();
        for NodeConfig { url, weight, .. } in config.common.nodes() {
            let refused = |reason| ConnectError::Url { chain_id: chain_id.clone(), reason };
            let parsed: Url =
                url.parse().map_err(|error: url::ParseError| refused(format!("is not a URL: {error}")))?;
            let rpc = Rpc::new(&parsed, Duration::from_millis(config.common.rpc_timeout_ms));
            nodes.push((rpc.map_err(|error| refused(error.to_string()))?, url, weight));
        }
        Self::with(config, nodes)
    }

    /// As [`Node::connect`], over transports of the caller's own instead of HTTP, each with the name by which its vote is told from
    /// others'. What the configuration says of addresses is not looked at.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn over(
        config: &SolanaConfig,
        nodes: impl IntoIterator<Item = (String, Box<dyn Transport>)>,
    ) -> Result<Self, ConnectError> {
        let timeout = Duration::from_millis(config.common.rpc_timeout_ms);
        let nodes = nodes.into_iter().map(|(name, transport)| (Rpc::over(transport, timeout), name, 1));
        Self::with(config, nodes.collect())
    }

    fn with(config: &SolanaConfig, nodes: Vec<(Rpc, String, u32)>) -> Result<Self, ConnectError> {
        let chain_id = chain_of(config)?;
        let cluster = cluster(config).ok_or_else(|| ConnectError::Cluster { chain_id: chain_id.clone() })?;
        if config.signature_domain_version != DOMAIN_VERSION {
            return Err(ConnectError::DomainVersion { chain_id });
        }
        if config.common.required_depth != Depth::Finalized {
            return Err(ConnectError::Depth { chain_id });
        }
        let feed = |url: WsUrl| HeadFeed::new(chain_id.clone(), url, Dialect::Solana);
        let head_feed = config.common.ws_url.clone().map(feed);
        Ok(Self(Arc::new(Inner {
            config: config.clone(),
            cluster,
            nodes: Nodes::new(&chain_id, cluster, nodes),
            settled: Mutex::new(None),
            settled_watched: Mutex::new(None),
            made_by: Mutex::default(),
            no_returns: Mutex::default(),
            finalized_read: Mutex::new(0),
            lacks_reassignments: AtomicBool::default(),
            poller: BlockPoller::new(config.common.poll_ms).hinted(head_feed.clone()),
            head_feed,
        })))
    }
}

/// The chain, where it is of the family.
fn chain_of(config: &SolanaConfig) -> Result<ChainId, ConnectError> {
    let chain_id = config.common.chain_id.clone();
    if chain_id.family() == Some(Family::Solana) { Ok(chain_id) } else { Err(ConnectError::Family(chain_id)) }
}

/// The cluster's genesis hash, when the chain id is made of it.
fn cluster(config: &SolanaConfig) -> Option<Hash> {
    let genesis_hash = config.signature_cluster_id.as_str();
    ClusterId::parse(genesis_hash)?;
    let begins = genesis_hash.get(..CHAIN_REFERENCE_CHARS)? == config.common.chain_id.reference();
    if !begins {
        return None;
    }
    base58(genesis_hash)
}
