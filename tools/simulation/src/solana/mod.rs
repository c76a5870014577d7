//! Solana clusters in memory, with the committed program on them, as a node's JSON-RPC shows them.
//!
//! Nothing here reads a clock or draws at random: the world makes each block and gives its time, and the same calls in the
//! same order give the same cluster to the last blockhash. The adapter of [`chains_solana`] runs on it as it is.
//!
//! - [`Template`] deploys once, [`Template::start`] gives each run its own [`SimCluster`].
//! - [`SimCluster`] is the world's handle: blocks, skipped slots, forks, the transactions that wait, money.
//! - [`SimCluster::rpc`] is what a node answers; which node, and how honest, is the [`NodeKind`].
//! - [`begin`] is a cluster as the world reaches it, whatever the family ([`crate::family`]).
//! - [`SimTransport`] connects [`chains_solana::node::Node`] to it, with RPC faults.
//!
//! Programs are executed by Solana's own virtual machine (LiteSVM). Not simulated: epochs, stake and votes (a block is confirmed and
//! finalized by how many lie on top of it), address lookup tables, durable nonces, rent that is collected.

mod accounts;
mod answer;
mod begin;
mod block;
mod calls;
mod careless;
mod error;
mod faults;
mod genesis;
mod history;
mod node_kind;
mod node_view;
mod orders;
mod pool;
mod production;
mod rpc;
mod runtime;
mod sending;
mod state;
mod tokens;
mod transport;
mod truth;
mod wire;
mod world;

use std::sync::{Arc, Mutex};

pub use self::{
    begin::begin,
    error::{RpcFault, SimError},
    genesis::{Genesis, Template, Token},
    node_kind::NodeKind,
    production::{BlockRef, Dropped, Forked, Slots},
    transport::{RpcOutcome, SimTransport},
};
use self::{block::Block, genesis::Deployed, pool::Pool, runtime::Runtime};

/// A cluster that its transports and the world share.
pub type SharedCluster = Arc<Mutex<SimCluster>>;

/// How far behind the newest block things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Blocks between the newest and the newest confirmed one.
    pub confirmed_lag: usize,
    /// Blocks between the newest and the newest finalized one.
    pub finalized_lag: usize,
    /// Blocks for which a blockhash counts, as nodes tell it; a transaction can land in one block more.
    pub blockhash_age: u64,
}

impl Default for Timing {
    /// A cluster's own, but for finality, which is 31 blocks there: nothing that is looked at here depends on how many, and runs are
    /// shorter so.
    fn default() -> Self {
        Self { confirmed_lag: 1, finalized_lag: 4, blockhash_age: 150 }
    }
}

/// One cluster.
#[derive(Debug, Clone)]
pub struct SimCluster {
    deployed: Arc<Deployed>,
    runtime: Runtime,
    timing: Timing,
    /// The blocks of the branch that won, from the genesis on.
    branch: Vec<Arc<Block>>,
    /// The branch that was the newest before the last fork, from the genesis on; empty while there was none.
    fork: Vec<Arc<Block>>,
    /// The place of the finalized block when that branch was left.
    fork_finalized: usize,
    /// The place of the newest finalized block.
    finalized: usize,
    /// The slot of the next block.
    next_slot: u64,
    pool: Pool,
    forks: u64,
}

impl SimCluster {
    fn new(deployed: Arc<Deployed>, timing: Timing, genesis: Block) -> Self {
        Self {
            runtime: Runtime::new(deployed.base.clone()),
            deployed,
            timing,
            next_slot: genesis.slot + 1,
            branch: vec![Arc::new(genesis)],
            fork: Vec::new(),
            fork_finalized: 0,
            finalized: 0,
            pool: Pool::default(),
            forks: 0,
        }
    }

    /// How far behind the newest block things are from now on.
    pub fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// The cluster, to be shared.
    pub fn shared(self) -> SharedCluster {
        Arc::new(Mutex::new(self))
    }
}
