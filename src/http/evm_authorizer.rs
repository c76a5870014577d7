//! Payers on EVM chains: Permit2 signatures, by keys and by contract accounts.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chains::evm::{
    node::Node,
    permit2::{self, AuthorizationError, Choice, EscrowSettings, OnchainError, Scheme, SpendRequest},
};
use serde_json::{Map, Value};

use events::ChainId;

use super::authorizer::{
    AuthorizationRequest, AuthorizeError, Authorized, Authorizer, MessageScheme, Prepared, PreparedDraw,
    UnsignedMessage,
};

/// [`Authorizer`] for the EVM chains it has a node of.
#[derive(Clone)]
pub struct EvmAuthorizer {
    nodes: BTreeMap<ChainId, Node>,
}

impl EvmAuthorizer {
    /// An authorizer that asks these nodes about contract accounts.
    pub fn new(nodes: impl IntoIterator<Item = Node>) -> Self {
        Self { nodes: nodes.into_iter().map(|node| (node.chain_id().clone(), node)).collect() }
    }
}

#[async_trait]
impl Authorizer for EvmAuthorizer {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        // Every message is verified, and one is all that these schemes have a meaning for.
        let [signed] = request.signed_messages else {
            let rule = "sender_auth.signed_messages: must hold exactly one message under this scheme";
            return Err(AuthorizeError::Refused(rule.to_owned()));
        };
        let chain = request.terms.source.asset().chain();
        let node = self.nodes.get(chain).ok_or_else(|| AuthorizeError::Unavailable(format!("no node for {chain}")))?;
        let spend = spend(request)?;
        let signed = permit2::SignedMessage {
            message: signed.message.clone(),
            message_prehash: signed.message_prehash.clone(),
            signature: signed.signature.clone(),
            payload: signed.payload.clone().map(Value::Object),
        };
        match permit2::authorize_onchain(&spend, &signed, node).await {
            Ok((authorization, escrow)) => Ok(Authorized { authorization, escrow }),
            Err(OnchainError::Denied(error)) => {
                Err(AuthorizeError::Refused(format!("sender_auth.signed_messages[0]: {error}")))
            }
            Err(OnchainError::Transient(error)) => Err(AuthorizeError::Unavailable(error.to_string())),
        }
    }

    async fn confirm(&self, _: &AuthorizationRequest<'_>, _: &Authorized) -> Result<(), AuthorizeError> {
        // A contract account judges the signature itself, and a key needs nobody's leave.
        Ok(())
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        payload: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        let refused = |error: AuthorizationError| AuthorizeError::Refused(error.to_string());
        let payload = payload.cloned().map(Value::Object);
        let choice = Choice::from_payload(payload.as_ref()).map_err(refused)?;
        let prepared = permit2::prepare(&spend(request)?, &choice).map_err(refused)?;
        let payload = match prepared.payload {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        let message = UnsignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: prepared.typed_data.to_string(),
            payload,
        };
        Ok(Prepared {
            messages: vec![message],
            amount: prepared.amount,
            draw: PreparedDraw::Permit2(prepared.nonce),
            escrow: prepared.plan,
        })
    }
}

/// The spend that is to be authorized.
fn spend(request: &AuthorizationRequest<'_>) -> Result<SpendRequest, AuthorizeError> {
    let scheme = match request.message_scheme {
        MessageScheme::EvmPermit2 => Scheme::EvmPermit2,
        MessageScheme::EvmPermit2Escrow => Scheme::EvmPermit2Escrow,
        other @ (MessageScheme::Solana | MessageScheme::Tron) => {
            return Err(AuthorizeError::Refused(format!("{} is no scheme of an EVM chain", other.name())));
        }
    };
    let permit2 = request.permit2.ok_or_else(|| AuthorizeError::Unavailable("no Permit2 is configured".to_owned()))?;
    Ok(SpendRequest {
        scheme,
        payment_id: request.payment_id.clone(),
        terms: request.terms.clone(),
        quote_deadline: request.quote_deadline,
        fulfillment_deadline: request.fulfillment_deadline,
        escrow: EscrowSettings {
            contract: request.escrow_contract.to_string(),
            reserver: request.reserver.to_string(),
            releaser: request.releaser.to_owned(),
            permit2: permit2.to_string(),
            refund_delay_seconds: request.refund_delay_seconds,
        },
        quote_hash: request.quote_hash,
    })
}
