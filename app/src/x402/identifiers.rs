//! Payment identifiers: each belongs, for ever and at every gateway, to the payload it was first settled with.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use events::{Hash32, PaymentId};

/// What is known of payment identifiers cannot be read or written. Repeating a claim is harmless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifiersError {
    /// For now.
    #[error("payment identifiers: {0}")]
    Unavailable(String),
    /// Before somebody looks into it.
    #[error("payment identifiers: {0}")]
    Unusable(String),
}

impl IdentifiersError {
    /// Whether it helps to try again later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// What an identifier belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// SHA-256 of the RFC 8785 form of what the payer accepted and of its payment request.
    pub payload: Hash32,
    /// The payment that the payload makes.
    pub payment_id: PaymentId,
    /// Hash of that payment's terms.
    pub terms_hash: Hash32,
}

/// The payloads that payment identifiers belong to.
#[async_trait]
pub trait Identifiers: Send + Sync {
    /// What `identifier` belongs to; `None` proves that it belongs to nothing.
    ///
    /// # Errors
    /// [`IdentifiersError`] when that cannot be said.
    async fn holder(&self, identifier: &str) -> Result<Option<Claim>, IdentifiersError>;

    /// Makes `identifier` belong to `claim`, unless another came before; returns what it belongs to from now on.
    ///
    /// # Errors
    /// [`IdentifiersError`] when that cannot be said. The claim may hold all the same; it is then this payload's, so that
    /// the identical call goes through later.
    async fn claim(&self, identifier: &str, claim: &Claim) -> Result<Claim, IdentifiersError>;
}

/// Payment identifiers of one process, for where there is no NATS.
#[derive(Debug, Default)]
pub struct MemoryIdentifiers(Mutex<BTreeMap<String, Claim>>);

#[async_trait]
impl Identifiers for MemoryIdentifiers {
    async fn holder(&self, identifier: &str) -> Result<Option<Claim>, IdentifiersError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(identifier).cloned())
    }

    async fn claim(&self, identifier: &str, claim: &Claim) -> Result<Claim, IdentifiersError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(held.entry(identifier.to_owned()).or_insert_with(|| claim.clone()).clone())
    }
}
