//! Node: a connection to one Tron chain with its configuration, and what those who use it share.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy::primitives::{Address, B256};

use chains::{
    block_poller::BlockPoller,
    config::{Depth, TronConfig},
};
use escrow_abi::known_terms::KnownTerms;
use events::failure::BlockchainContext;

use super::{address::text, block_logs::BlockLogs, transport::Transport};

pub(super) use super::connection::{BLOCK_MS, Span};
pub use super::connection::{ConnectError, Connection};
pub use super::query::{AccountResources, Answer, Block, BlockInfos, BroadcastError, Header, Info, Log, Prices, State};

/// A connection to one chain, cheap to clone; what the chain is asked is [`Connection`]'s.
#[derive(Clone)]
pub struct Node(Arc<Inner>);

struct Inner {
    config: TronConfig,
    connection: Connection,
    known_terms: KnownTerms,
    block_logs: BlockLogs,
    /// Whether the chain's own escrow was seen to have no reassignments.
    lacks_reassignments: AtomicBool,
    poller: BlockPoller<B256>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Node").field(self.chain_id()).finish()
    }
}

impl Deref for Node {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0.connection
    }
}

impl Node {
    /// A connection by `config`. Nothing is sent before the first use; then the node is asked for its first block, and
    /// nothing else is asked of a node of another chain.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration cannot be meant.
    pub fn connect(config: &TronConfig) -> Result<Self, ConnectError> {
        let timeout = Duration::from_millis(config.common.rpc_timeout_ms);
        Self::with(config, Connection::through(&config.common.chain_id, &config.nodes(), timeout)?)
    }

    /// As [`connect`](Self::connect), over transports of the caller's own instead of HTTP, each with the name by which messages
    /// call its node and its vote is told from others'. A transport limits the time of a call by itself.
    ///
    /// # Errors
    /// [`ConnectError`] when the configuration cannot be meant.
    pub fn over(
        config: &TronConfig,
        nodes: impl IntoIterator<Item = (String, Arc<dyn Transport>)>,
    ) -> Result<Self, ConnectError> {
        Self::with(config, Connection::over(&config.common.chain_id, nodes)?)
    }

    fn with(config: &TronConfig, connection: Connection) -> Result<Self, ConnectError> {
        let common = &config.common;
        if common.required_depth != Depth::Finalized {
            return Err(ConnectError::Depth { chain_id: common.chain_id.clone() });
        }
        Ok(Self(Arc::new(Inner {
            config: config.clone(),
            connection,
            known_terms: KnownTerms::default(),
            block_logs: BlockLogs::default(),
            lacks_reassignments: AtomicBool::default(),
            poller: BlockPoller::new(common.poll_ms),
        })))
    }

    /// The terms of payments in escrow that are known here.
    pub(crate) fn known_terms(&self) -> &KnownTerms {
        &self.0.known_terms
    }

    /// Whether the chain's own escrow is known to be of a version before there were reassignments.
    pub(crate) fn lacks_reassignments(&self) -> bool {
        self.0.lacks_reassignments.load(Ordering::Relaxed)
    }

    /// Notes whether it is one; whether that is another word than before.
    pub(crate) fn note_reassignments(&self, lacks: bool) -> bool {
        self.0.lacks_reassignments.swap(lacks, Ordering::Relaxed) != lacks
    }

    /// What the configuration says.
    pub fn config(&self) -> &TronConfig {
        &self.0.config
    }

    /// The context of a failure on this chain, with nothing but the place and the reason.
    pub(super) fn refusal(&self, contract: Address, reason: String) -> BlockchainContext {
        BlockchainContext {
            chain_id: self.chain_id().clone(),
            transaction_hash: None,
            block_number: None,
            contract_address: Some(text(contract)),
            revert_reason: Some(reason),
            gas_used: None,
            estimated_gas_needed: None,
        }
    }

    /// What a log watcher saw of the newest blocks.
    pub(super) fn block_logs(&self) -> &BlockLogs {
        &self.0.block_logs
    }

    /// Returns when the chain has a new block, or after a bounded time. All callers share one poller.
    pub async fn next_block(&self) {
        let node = Arc::downgrade(&self.0);
        let look = move || {
            let node = node.upgrade().map(Node);
            async move {
                let node = node?;
                let head = node.head().await;
                let told =
                    head.inspect_err(|fault| tracing::debug!(chain_id = %node.chain_id(), %fault, "no newest block"));
                told.ok().map(|head| head.id)
            }
        };
        self.0.poller.next(look).await;
    }
}
