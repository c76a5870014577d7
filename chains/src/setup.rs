//! Set-up error: why the chains of a gateway cannot be used as configured.

use events::{Account, ChainId};

/// Why the chains cannot be used as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A chain stands twice.
    #[error("{0} is configured twice")]
    Twice(ChainId),
    /// There is no account to send from.
    #[error("{0} has no submitter key")]
    NoSubmitter(ChainId),
    /// The reserver's key and the configured reserver differ.
    #[error("reserver of {chain_id} is configured as {configured}, its key is of {key}")]
    Reserver {
        /// The chain.
        chain_id: ChainId,
        /// The account in the configuration.
        configured: Account,
        /// The key's account.
        key: Account,
    },
    /// Two keys of reservers are of one account.
    #[error("{chain_id} has two keys of the reserver {account}")]
    ReserverTwice {
        /// The chain.
        chain_id: ChainId,
        /// The account.
        account: Account,
    },
}
