//! Why there is no connection.

use events::ChainId;

/// Why a chain's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The chain is not of the Tron family.
    #[error("{0} is not a Tron chain")]
    Family(ChainId),
    /// The chain id is none.
    #[error("{0} is not a Tron chain id: its reference must have 32 bits")]
    Reference(ChainId),
    /// The endpoint cannot be used.
    #[error("rpc_url of {chain_id} {reason}")]
    Url {
        /// The chain.
        chain_id: ChainId,
        /// What is wrong.
        reason: String,
    },
    /// Only the chain's own finality settles a block.
    #[error("required_depth of {chain_id} must be \"finalized\"")]
    Depth {
        /// The chain.
        chain_id: ChainId,
    },
    /// The HTTP client cannot be built.
    #[error("HTTP client of {chain_id}: {reason}")]
    Client {
        /// The chain.
        chain_id: ChainId,
        /// What is wrong.
        reason: String,
    },
}
