//! The authorizers of every family behind one.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::{Map, Value};

use events::Family;

use super::authorizer::{AuthorizationRequest, AuthorizeError, Authorized, Authorizer, UnsignedMessage};

/// [`Authorizer`] that asks the one of the source's family.
pub struct Authorizers(BTreeMap<Family, Arc<dyn Authorizer>>);

impl Authorizers {
    /// An authorizer for payers of these families.
    pub fn new(families: impl IntoIterator<Item = (Family, Arc<dyn Authorizer>)>) -> Self {
        Self(families.into_iter().collect())
    }

    fn of(&self, request: &AuthorizationRequest<'_>) -> Result<&dyn Authorizer, AuthorizeError> {
        let family = request.terms.source.family();
        let authorizer = self.0.get(&family).map(Arc::as_ref);
        authorizer.ok_or_else(|| AuthorizeError::Unavailable(format!("no {} chain is connected", family.namespace())))
    }
}

#[async_trait]
impl Authorizer for Authorizers {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        self.of(request)?.authorize(request).await
    }

    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        self.of(request)?.confirm(request, authorized).await
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Vec<UnsignedMessage>, AuthorizeError> {
        self.of(request)?.prepare(request, payload).await
    }
}
