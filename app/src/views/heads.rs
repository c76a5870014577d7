//! Chain heads: the newest block that the gateway has seen of each chain, by which confirmations are counted.

use chains::registry::ChainRegistry;
use events::ChainId;
use sagas::ports::Chains;

/// How far chains are, as far as the gateway has seen them.
pub trait ChainHeads: Send + Sync {
    /// The newest block (slot on Solana) of the chain that was seen, without asking it; `None` where none was.
    fn head(&self, chain_id: &ChainId) -> Option<u64>;
}

impl ChainHeads for ChainRegistry {
    fn head(&self, chain_id: &ChainId) -> Option<u64> {
        Chains::head(self, chain_id)
    }
}
