//! Payment identifiers of x402: each belongs, for ever and at every gateway, to the payload it was first settled with. [`nats`]
//! keeps them for all gateways on one NATS.

pub mod nats;

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use events::{Hash32, PaymentId};

/// What is known of payment identifiers cannot be read or written. Binding one again is harmless.
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

/// What an identifier is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// What tells one claimant from another: SHA-256 of the RFC 8785 form of what the payer accepted and of its payment request, or the call
    /// that tells a merchant of a stock client's payment.
    pub payload: Hash32,
    /// The payment that the payload makes.
    pub payment_id: PaymentId,
    /// Hash of that payment's terms.
    pub terms_hash: Hash32,
}

/// The payloads that payment identifiers belong to.
#[async_trait]
pub trait Identifiers: Send + Sync {
    /// What `identifier` is bound to; `None` proves that it is bound to nothing.
    ///
    /// # Errors
    /// [`IdentifiersError`] when that cannot be said.
    async fn bound(&self, identifier: &str) -> Result<Option<Binding>, IdentifiersError>;

    /// Binds `identifier` to `binding`, unless another came before; returns what it is bound to from now on.
    ///
    /// # Errors
    /// [`IdentifiersError`] when that cannot be said. The binding may hold all the same; it is then this payload's, so that
    /// the identical call goes through later.
    async fn bind(&self, identifier: &str, binding: &Binding) -> Result<Binding, IdentifiersError>;
}

/// Payment identifiers of one process, for where there is no NATS.
#[derive(Debug, Default)]
pub struct MemoryIdentifiers(Mutex<BTreeMap<String, Binding>>);

#[async_trait]
impl Identifiers for MemoryIdentifiers {
    async fn bound(&self, identifier: &str) -> Result<Option<Binding>, IdentifiersError> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(identifier).cloned())
    }

    async fn bind(&self, identifier: &str, binding: &Binding) -> Result<Binding, IdentifiersError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(held.entry(identifier.to_owned()).or_insert_with(|| binding.clone()).clone())
    }
}
