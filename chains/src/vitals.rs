//! Vital signs of a connected chain (metrics): how far it has settled, what transactions came to and cost, what submitters
//! hold. Nothing rests on them.

use async_trait::async_trait;

use events::{ChainId, event::TransactionPrepared};
use sagas::ports::Transient;

/// What a transaction came to, by a node's receipt of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// Whether it had its effect; one that did not has cost all the same.
    pub success: bool,
    /// What it used up: gas on EVM chains, compute units on Solana, energy on Tron.
    pub gas: u64,
    /// What its sender paid, in the smallest unit of the chain's coin; 0 where the node does not say.
    pub fee: u128,
}

/// A submitter, as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmitterVitals {
    /// The account, in the chain's own notation.
    pub account: String,
    /// Its coins, in whole ones.
    pub coins: f64,
    /// Nonces that were given out and whose transactions are not known to be final; `None` on chains without nonces.
    pub nonces_in_flight: Option<usize>,
}

/// A chain whose vital signs can be taken.
#[async_trait]
pub trait Vitals: Send + Sync {
    /// The chain.
    fn chain_id(&self) -> &ChainId;

    /// Number (slot on Solana) of the newest settled block.
    ///
    /// # Errors
    /// [`Transient`]: the chain cannot be used for now.
    async fn settled(&self) -> Result<u64, Transient>;

    /// What became of a transaction of the gateway, of whose versions one landed at most; `None` where none did, as far as
    /// the node knows.
    ///
    /// # Errors
    /// [`Transient`].
    async fn spent(&self, versions: &[TransactionPrepared]) -> Result<Option<Spent>, Transient>;

    /// The accounts that send the gateway's transactions; none where the chain is a destination only.
    ///
    /// # Errors
    /// [`Transient`].
    async fn submitters(&self) -> Result<Vec<SubmitterVitals>, Transient>;
}
