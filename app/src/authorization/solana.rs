//! Payers on Solana: Ed25519 signatures by the payer or by a key that it approved.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use chains_solana::{
    authorization::{self, AuthorizationError, Choice, ClusterId, Delegation, EscrowSettings, SpendRequest},
    holding::Holding,
    node::Node,
};
use events::{Account, ChainId, OwnedAsset, event::Authorization};
use sagas::ports::Transient;

use crate::{
    authorization::{
        AuthorizationRequest, AuthorizeError, Authorized, Authorizer, FirstThatAuthorizes, MessageScheme, Prepared,
        PreparedDraw, UnsignedMessage,
    },
    connected::Connected,
};

/// Who may draw on a payer's tokens, as the chain has it.
#[async_trait]
pub trait Approvals: Send + Sync {
    /// The delegate of the payer's associated token account; `None` when there is none, or no such account.
    ///
    /// # Errors
    /// When the chain cannot be asked; nothing may be concluded.
    async fn delegate(&self, source: &OwnedAsset) -> Result<Option<Account>, Transient>;
}

#[async_trait]
impl Approvals for Node {
    async fn delegate(&self, source: &OwnedAsset) -> Result<Option<Account>, Transient> {
        Ok(Holding::read(self, source).await?.and_then(|holding| holding.delegate))
    }
}

/// [`Authorizer`] for the Solana chains it knows the cluster id of.
#[derive(Clone)]
pub struct SolanaAuthorizer {
    chains: Connected<(ClusterId, Arc<dyn Approvals>)>,
}

impl SolanaAuthorizer {
    /// An authorizer for these chains.
    pub fn new(chains: impl IntoIterator<Item = (ChainId, ClusterId, Arc<dyn Approvals>)>) -> Self {
        Self { chains: chains.into_iter().map(|(id, cluster_id, approvals)| (id, (cluster_id, approvals))).collect() }
    }

    fn chain(&self, request: &AuthorizationRequest<'_>) -> Result<&(ClusterId, Arc<dyn Approvals>), AuthorizeError> {
        Ok(self.chains.of(&request.terms.source)?)
    }

    /// The spend that is to be authorized.
    fn spend(&self, request: &AuthorizationRequest<'_>) -> Result<SpendRequest, AuthorizeError> {
        match request.message_scheme {
            MessageScheme::Solana => {}
            other @ (MessageScheme::EvmPermit2
            | MessageScheme::EvmPermit2Escrow
            | MessageScheme::EvmEip3009
            | MessageScheme::EvmX402Exact
            | MessageScheme::Tron
            | MessageScheme::TronPermit2Escrow) => {
                return Err(AuthorizeError::Refused(format!("{} is not a scheme of a Solana chain", other.name())));
            }
        }
        let (cluster_id, _) = self.chain(request)?;
        Ok(SpendRequest {
            payment_id: request.payment_id.clone(),
            terms: request.terms.clone(),
            quote_deadline: request.quote_deadline,
            fulfillment_deadline: request.fulfillment_deadline,
            cluster_id: *cluster_id,
            escrow: EscrowSettings {
                program: request.escrow_contract.clone(),
                reserver: request.reserver.clone(),
                releaser: request.releaser.clone(),
                refund_delay_seconds: request.refund_delay_seconds,
            },
            quote_hash: request.quote_hash,
        })
    }
}

#[async_trait]
impl Authorizer for SolanaAuthorizer {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        let spend = self.spend(request)?;
        let mut search = FirstThatAuthorizes::default();
        for (index, signed) in request.signed_messages.iter().enumerate() {
            let signed = authorization::SignedMessage {
                message: signed.message.clone(),
                message_prehash: signed.message_prehash.clone(),
                signature: signed.signature.clone(),
                payload: signed.payload.clone().map(Value::Object),
            };
            let judged = match authorization::authorize(&spend, &signed) {
                Ok((authorization, escrow)) => Ok(Authorized { authorization, escrow }),
                Err(error) => Err(AuthorizeError::Refused(format!("sender_auth.signed_messages[{index}]: {error}"))),
            };
            if let Some(judged) = search.end(judged) {
                return judged;
            }
        }
        Err(search.refused())
    }

    /// Whoever holds some key could else submit payments in the name of a payer that has never heard of it, and take its
    /// request ids away.
    async fn confirm(&self, request: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        let source = &request.terms.source;
        let Authorization::Solana(spend) = &authorized.authorization else { return Ok(()) };
        // What cannot be a delegation is not the payer's own signature either.
        let delegation =
            Delegation::of(source.account(), &authorized.escrow.contract, spend).map_err(Transient::from)?;
        let Some(delegation) = delegation else { return Ok(()) };
        let (_, approvals) = self.chain(request)?;
        let approved = approvals.delegate(source).await?;
        if approved.as_ref() == Some(&delegation.address) {
            return Ok(());
        }
        Err(AuthorizeError::Refused(format!(
            "sender_auth.signed_messages: payload.delegate_signer {} is not approved by the payer: the delegate of its \
             associated token account must be {}",
            delegation.signer, delegation.address,
        )))
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        let refused = |error: AuthorizationError| AuthorizeError::Refused(error.to_string());
        let payload = payload.cloned().map(Value::Object);
        let choice = Choice::from_payload(payload.as_ref()).map_err(refused)?;
        let prepared = authorization::prepare(&self.spend(request)?, &choice).map_err(refused)?;
        let payload = match prepared.payload {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let message = UnsignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: format!("0x{}", hex::encode(prepared.preimage)),
            payload,
        };
        Ok(Prepared {
            messages: vec![message],
            amount: prepared.amount,
            draw: PreparedDraw::Delegate(prepared.signer),
            escrow: prepared.plan,
        })
    }
}
