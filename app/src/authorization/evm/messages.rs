//! Requests as the chain's own code has them: what was signed, what it is to authorize, and what both come to.

use serde_json::{Map, Value};

use chains_evm::{
    authorization::{self, AuthorizationError, EscrowSettings, Scheme, SpendRequest},
    token_domain::TokenDomain,
};
use escrow_abi::contracts::ConvertError;
use events::{Hash32, event::Authorization};
use sagas::ports::Transient;

use crate::authorization::{
    AuthorizationRequest, AuthorizeError, Authorized, MessageScheme, SignedMessage, UnsignedMessage,
};

/// Adds the allowance for Permit2 to what is authorized, where the payer signed one.
pub(super) fn add_allowance(
    request: &AuthorizationRequest<'_>,
    spend: &SpendRequest,
    authorized: &mut Authorized,
) -> Result<(), AuthorizeError> {
    let (Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit)) = &mut authorized.authorization
    else {
        return Ok(());
    };
    let ends = authorized.escrow.reserve_deadline;
    for (index, signed) in request.signed_messages.iter().enumerate() {
        let signed = as_signed(signed);
        if authorization::is_allowance(&signed) {
            let allowance = authorization::allowance(spend, &signed, ends);
            permit.allowance = Some(allowance.map_err(|error| refused(index, &error))?);
            break;
        }
    }
    Ok(())
}

pub(super) fn convert<T>(converted: Result<T, ConvertError>) -> Result<T, AuthorizeError> {
    converted.map_err(|error| AuthorizeError::Refused(format!("source: {error}")))
}

pub(super) fn as_signed(signed: &SignedMessage) -> authorization::SignedMessage {
    authorization::SignedMessage {
        message: signed.message.clone(),
        message_prehash: signed.message_prehash.clone(),
        signature: signed.signature.clone(),
        payload: signed.payload.clone().map(Value::Object),
    }
}

pub(super) fn refused(index: usize, error: &AuthorizationError) -> AuthorizeError {
    AuthorizeError::Refused(format!("sender_auth.signed_messages[{index}]: {error}"))
}

/// Whether a token has to take a signature of the payer's.
pub(super) fn is_for_token(authorization: &Authorization) -> bool {
    match authorization {
        Authorization::EvmEip3009(_) | Authorization::EvmX402Exact(_) => true,
        Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit) => permit.allowance.is_some(),
        Authorization::EvmPermit2Batch(_)
        | Authorization::EvmPermit2Mandate(_)
        | Authorization::DepositAddress(_)
        | Authorization::Solana(_)
        | Authorization::SolanaX402Exact(_)
        | Authorization::Tron(_)
        | Authorization::TronPermit2Escrow(_) => false,
    }
}

/// Whether two authorizations are one, whatever allowance one of them brings, and whenever it was looked at.
pub(super) fn is_same(one: &Authorization, other: &Authorization) -> bool {
    let bare = |authorization: &Authorization| {
        let mut bare = authorization.clone();
        if let Authorization::EvmPermit2Escrow(permit) | Authorization::EvmPermit2(permit) = &mut bare {
            permit.allowance = None;
        }
        if let Authorization::EvmPermit2Batch(permit) = &mut bare {
            permit.from_block = 0;
        }
        bare
    };
    bare(one) == bare(other)
}

pub(super) fn unsigned(typed_data: &Value, digest: Hash32, payload: Value) -> UnsignedMessage {
    let payload = match payload {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    UnsignedMessage { message: digest.to_string(), message_prehash: typed_data.to_string(), payload }
}

/// The spend that is to be authorized, of a token that signs in this domain.
pub(super) fn spend(
    request: &AuthorizationRequest<'_>,
    token: Option<TokenDomain>,
) -> Result<SpendRequest, AuthorizeError> {
    let scheme = match request.message_scheme {
        MessageScheme::EvmPermit2 => Scheme::EvmPermit2,
        MessageScheme::EvmPermit2Escrow => Scheme::EvmPermit2Escrow,
        MessageScheme::EvmPermit2Batch => Scheme::EvmPermit2Batch,
        MessageScheme::EvmPermit2Mandate => Scheme::EvmPermit2Mandate,
        MessageScheme::EvmEip3009 => Scheme::EvmEip3009,
        MessageScheme::EvmX402Exact => Scheme::EvmX402Exact,
        other @ (MessageScheme::Solana
        | MessageScheme::SolanaX402Exact
        | MessageScheme::Tron
        | MessageScheme::TronPermit2Escrow) => {
            return Err(AuthorizeError::Refused(format!("{} is not a scheme of an EVM chain", other.name())));
        }
    };
    let permit2 = request.permit2.ok_or_else(|| Transient::misconfigured("no Permit2 is configured"))?;
    Ok(SpendRequest {
        scheme,
        payment_id: request.payment_id.clone(),
        terms: request.terms.clone(),
        quote_deadline: request.quote_deadline,
        fulfillment_deadline: request.fulfillment_deadline,
        escrow: EscrowSettings {
            contract: request.escrow_contract.clone(),
            reserver: request.reserver.clone(),
            releaser: request.releaser.clone(),
            permit2: permit2.clone(),
            refund_delay_seconds: request.refund_delay_seconds,
        },
        quote_hash: request.quote_hash,
        token,
    })
}
