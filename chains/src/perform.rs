//! Perform error: why a settler's transaction did not have its effect, whatever the chain's family.

use events::failure::BlockchainContext;
use sagas::ports::Transient;

/// Why a transaction did not have its effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PerformError {
    /// Nothing is known; do the same again.
    #[error(transparent)]
    Transient(#[from] Transient),
    /// The contract refuses, at its newest state or in a block.
    #[error("the chain refuses the transaction: {}", .0.revert_reason.as_deref().unwrap_or("no reason given"))]
    Refused(Box<BlockchainContext>),
    /// The time in which it could have an effect is over.
    #[error("too late: {0}")]
    TooLate(String),
}
