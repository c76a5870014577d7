//! Authorizer registry: the authorizer of each chain family, behind bulkheads of its own.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use events::{Account, ChainId, Family, OwnedAsset, event::DepositAddress};
use sagas::ports::Transient;

use crate::{
    authorization::{
        AddressRequest, AuthorizationRequest, AuthorizeError, Authorized, Authorizer, MandateRequest, MessageScheme,
        OfferSigning, Prepared, PreparedBatch, PreparedMandate, UnsignedMessage, Wish,
    },
    bulkhead::{
        Bulkhead, Permit,
        families::{FamilyBulkheads, Guarded},
    },
};

/// [`Authorizer`] that asks the one of the source's family.
pub struct Authorizers(FamilyBulkheads<dyn Authorizer>);

impl Authorizers {
    /// An authorizer for payers of these families.
    pub fn new(families: impl IntoIterator<Item = (Family, Arc<dyn Authorizer>)>) -> Self {
        Self(FamilyBulkheads::new(families))
    }

    /// The authorizer of the source's family, and a permit to ask it.
    async fn of(
        &self,
        family: Family,
        bulkhead: impl Fn(&Guarded<dyn Authorizer>) -> &Bulkhead,
    ) -> Result<(Option<Permit>, &dyn Authorizer), AuthorizeError> {
        let guarded = self.0.of(family)?;
        if guarded.inner.has_bulkheads() {
            return Ok((None, guarded.inner.as_ref()));
        }
        let full = || {
            Transient::rate_limited(format!("as many checks as there may be wait for chains of {}", family.namespace()))
        };
        let permit = bulkhead(guarded).permit().await.ok_or_else(full)?;
        Ok((Some(permit), guarded.inner.as_ref()))
    }
}

#[async_trait]
impl Authorizer for Authorizers {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        request.check_window()?;
        let (_permit, authorizer) = self.of(request.terms.source.family(), |family| &family.signed).await?;
        authorizer.authorize(request).await
    }

    async fn offered(&self, wish: &Wish<'_>) -> Result<MessageScheme, AuthorizeError> {
        let (_permit, authorizer) = self.of(wish.source.family(), |family| &family.unsigned).await?;
        authorizer.offered(wish).await
    }

    async fn deposit_address(&self, request: &AddressRequest<'_>) -> Result<DepositAddress, AuthorizeError> {
        let (_permit, authorizer) = self.of(request.terms.source.family(), |family| &family.unsigned).await?;
        authorizer.deposit_address(request).await
    }

    async fn offer_signing(
        &self,
        source: &OwnedAsset,
        escrow: &Account,
        pay_to: &Account,
    ) -> Result<OfferSigning, AuthorizeError> {
        let (_permit, authorizer) = self.of(source.family(), |family| &family.unsigned).await?;
        authorizer.offer_signing(source, escrow, pay_to).await
    }

    fn fee_payer(&self, chain: &ChainId) -> Option<&Account> {
        self.0.of(chain.family()?).ok()?.inner.fee_payer(chain)
    }

    async fn allowance(
        &self,
        request: &AuthorizationRequest<'_>,
        prepared: &Prepared,
    ) -> Result<Option<UnsignedMessage>, AuthorizeError> {
        let (_permit, authorizer) = self.of(request.terms.source.family(), |family| &family.unsigned).await?;
        authorizer.allowance(request, prepared).await
    }

    async fn payer_is_contract(
        &self,
        request: &AuthorizationRequest<'_>,
        authorized: &Authorized,
    ) -> Result<bool, AuthorizeError> {
        let (_permit, authorizer) = self.of(request.terms.source.family(), |family| &family.signed).await?;
        authorizer.payer_is_contract(request, authorized).await
    }

    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        let (_permit, authorizer) = self.of(request.terms.source.family(), |family| &family.signed).await?;
        authorizer.confirm(request, authorized).await
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        request.check_window()?;
        let (_permit, authorizer) = self.of(request.terms.source.family(), |family| &family.unsigned).await?;
        authorizer.prepare(request, payload).await
    }

    async fn prepare_batch(
        &self,
        requests: &[AuthorizationRequest<'_>],
        deadline: Option<u64>,
    ) -> Result<PreparedBatch, AuthorizeError> {
        let none = || AuthorizeError::Refused("payments: must have at least one payment".to_owned());
        let family = requests.first().map(|request| request.terms.source.family()).ok_or_else(none)?;
        let (_permit, authorizer) = self.of(family, |family| &family.unsigned).await?;
        authorizer.prepare_batch(requests, deadline).await
    }

    async fn prepare_mandate(&self, request: &MandateRequest<'_>) -> Result<PreparedMandate, AuthorizeError> {
        let (_permit, authorizer) = self.of(request.terms.source.family(), |family| &family.unsigned).await?;
        authorizer.prepare_mandate(request).await
    }
}
