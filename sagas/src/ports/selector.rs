//! The port to quote selectors.

use async_trait::async_trait;

use events::{
    Hash32, Terms,
    selection::{SelectorKey, Shown, SignedChoice},
    time::Timestamp,
};

use super::transient::Transient;

/// What a quote selector is shown: an auction with its eligible quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectionRequest {
    /// Who is to choose.
    pub selector: SelectorKey,
    /// The auction.
    pub auction_id: String,
    /// What is asked for.
    pub terms: Terms,
    /// Its hash.
    pub terms_hash: Hash32,
    /// When quotes could come in at the latest.
    pub quote_deadline: Timestamp,
    /// When the choice has to be there.
    pub answer_by: Timestamp,
    /// Hashes of the quotes, in the order of `documents`.
    pub quotes: Vec<Hash32>,
    /// The quotes as their settlers signed them.
    pub documents: Vec<String>,
}

impl SelectionRequest {
    /// What a choice has to be about.
    pub fn shown(&self) -> Shown<'_> {
        Shown { auction_id: &self.auction_id, terms_hash: self.terms_hash, quotes: &self.quotes }
    }
}

/// The quote selectors.
#[async_trait]
pub trait Selector: Send + Sync {
    /// Shows a selector the quotes and returns what it says, not yet believed.
    ///
    /// # Errors
    /// [`Transient`] when it does not answer within a bounded time, or talks nonsense.
    async fn choose(&self, request: &SelectionRequest) -> Result<SignedChoice, Transient>;
}
