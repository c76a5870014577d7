//! Authorizer registry: the authorizer of each chain family, behind bulkheads of its own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use events::Family;
use sagas::ports::Transient;

use crate::{
    authorization::{AuthorizationRequest, AuthorizeError, Authorized, Authorizer, Prepared},
    bulkhead::Bulkhead,
};

/// Checks of one family that are being made at a time, and that wait for it. Some ask a node, and one that hangs must
/// not take the permits of all writes, whichever chains they are for.
const CHECKS_MAX: usize = 64;
/// The same for what is prepared. Whoever asks for that has proven nothing, so it takes no permit of a check.
const PREPARATIONS_MAX: usize = 16;
/// How long they wait.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// [`Authorizer`] that asks the one of the source's family.
pub struct Authorizers(BTreeMap<Family, FamilyBulkheads>);

/// The authorizer of one family, and the bulkheads in front of it.
struct FamilyBulkheads {
    authorizer: Arc<dyn Authorizer>,
    signed: Bulkhead,
    unsigned: Bulkhead,
}

impl Authorizers {
    /// An authorizer for payers of these families.
    pub fn new(families: impl IntoIterator<Item = (Family, Arc<dyn Authorizer>)>) -> Self {
        let bulkhead = |permits| Bulkhead::new(permits, permits, WAIT_MAX);
        let guarded = |authorizer| FamilyBulkheads {
            authorizer,
            signed: bulkhead(CHECKS_MAX),
            unsigned: bulkhead(PREPARATIONS_MAX),
        };
        Self(families.into_iter().map(|(family, authorizer)| (family, guarded(authorizer))).collect())
    }

    /// The authorizer of the source's family, and a permit to ask it.
    async fn of(
        &self,
        request: &AuthorizationRequest<'_>,
        bulkhead: impl Fn(&FamilyBulkheads) -> &Bulkhead,
    ) -> Result<(Option<OwnedSemaphorePermit>, &dyn Authorizer), AuthorizeError> {
        let family = request.terms.source.family();
        let unknown = || Transient::misconfigured(format!("no chain is connected of {}", family.namespace()));
        let asked = self.0.get(&family).ok_or_else(unknown)?;
        if asked.authorizer.has_bulkheads() {
            return Ok((None, asked.authorizer.as_ref()));
        }
        let full = || {
            Transient::rate_limited(format!("as many checks as there may be wait for chains of {}", family.namespace()))
        };
        let permit = bulkhead(asked).permit().await.ok_or_else(full)?;
        Ok((Some(permit), asked.authorizer.as_ref()))
    }
}

#[async_trait]
impl Authorizer for Authorizers {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let (_permit, authorizer) = self.of(request, |family| &family.signed).await?;
        authorizer.authorize(request).await
    }

    async fn payer_is_contract(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<bool, AuthorizeError> {
        let (_permit, authorizer) = self.of(request, |family| &family.signed).await?;
        authorizer.payer_is_contract(request, authorized).await
    }

    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        let (_permit, authorizer) = self.of(request, |family| &family.signed).await?;
        authorizer.confirm(request, authorized).await
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        let (_permit, authorizer) = self.of(request, |family| &family.unsigned).await?;
        authorizer.prepare(request, payload).await
    }
}
