//! EVM chains in memory, with the real contracts on them, as a node's JSON-RPC shows them.
//!
//! Nothing here reads a clock or draws at random: the world makes each block and gives its time, and the same calls in the
//! same order give the same chain to the last hash. The adapters of [`chains`] run on it as they are.
//!
//! - [`Template`] deploys once, [`Template::start`] gives each run its own [`SimChain`].
//! - [`SimChain`] is the world's handle: blocks, reorganisations, the pool of waiting transactions, money.
//! - [`SimChain::rpc`] is what a node answers; which node, and how honest, is the [`NodeKind`].
//! - [`SimTransport`] connects [`chains_evm::node::Node`] to it, with RPC faults.
//!
//! Not simulated: blobs and account delegations (EIP-4844, EIP-7702), Merkle proofs, pruning of old states.

mod answer;
mod block;
mod call;
mod error;
mod genesis;
mod mining;
mod node_kind;
mod node_view;
mod pool;
mod rpc;
mod state;
mod transport;
mod vm;
mod world;

use std::sync::{Arc, Mutex};

use self::{block::Block, genesis::Deployed, pool::Pool};
pub use self::{
    error::{RpcFault, SimError},
    genesis::{Contracts, Genesis, Template},
    mining::{BaseFee, Dropped, Reorganised},
    node_kind::NodeKind,
    transport::{RpcOutcome, SimTransport},
    world::{Change, PaymentChange, PaymentEvents},
};

/// A chain that its transports and the world share.
pub type SharedChain = Arc<Mutex<SimChain>>;

/// Blocks between the newest and the finalized one, unless told otherwise.
const FINALIZED_LAG: u64 = 4;
/// Blocks between the newest and the safe one, unless told otherwise.
const SAFE_LAG: u64 = 2;

/// One chain.
#[derive(Debug, Clone)]
pub struct SimChain {
    deployed: Arc<Deployed>,
    /// The canonical blocks; each one's place is its number.
    branch: Vec<Arc<Block>>,
    /// The branch that was canonical before the last reorganisation, from block 0 on; empty while there was none.
    fork: Vec<Arc<Block>>,
    /// The finalized block when that branch was left.
    fork_finalized: u64,
    finalized: u64,
    safe_lag: u64,
    finalized_lag: u64,
    base_fee: BaseFee,
    pool: Pool,
    reorganisations: u64,
}

impl SimChain {
    fn new(deployed: Arc<Deployed>, genesis: Block) -> Self {
        Self {
            deployed,
            branch: vec![Arc::new(genesis)],
            fork: Vec::new(),
            fork_finalized: 0,
            finalized: 0,
            safe_lag: SAFE_LAG,
            finalized_lag: FINALIZED_LAG,
            base_fee: BaseFee::Market,
            pool: Pool::default(),
            reorganisations: 0,
        }
    }

    /// The EIP-155 id.
    pub fn evm_id(&self) -> u64 {
        self.deployed.genesis.evm_id
    }

    /// Where the contracts are.
    pub fn contracts(&self) -> &Contracts {
        &self.deployed.contracts
    }

    /// The chain, to be shared.
    pub fn shared(self) -> SharedChain {
        Arc::new(Mutex::new(self))
    }
}
