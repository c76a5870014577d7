//! `GET /v1/payments/resolve`: the payment of a request id (design: HTTP).

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
};
use serde::Deserialize;

use events::{Account, Did, Family, PaymentId};

use super::{
    error::{ApiError, Code},
    order,
    payment_body::StatusBody,
    payment_status,
    state::HttpState,
};

#[derive(Deserialize)]
pub(super) struct Parameters {
    request_id: Option<String>,
    account: Option<String>,
    originator: Option<String>,
}

/// The status of the payment that this originator asked for under this request id.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<Json<StatusBody>, ApiError> {
    let rule = "request_id, account and originator: each must be given at most once";
    let Query(Parameters { request_id, account, originator }) = parameters.map_err(|_| invalid(rule))?;
    let request_id = request_id.ok_or_else(|| invalid("request_id: is required"))?;
    if !order::is_request_id(&request_id) {
        let rule = format!("request_id: {}", order::REQUEST_ID_RULE);
        return Err(ApiError::new(Code::INVALID_REQUEST_ID, rule));
    }
    let originator = match (account, originator) {
        (Some(account), None) => of_account(&account)?,
        (None, Some(originator)) => of_originator(&originator)?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(invalid("account, originator: exactly one of them must be given"));
        }
    };
    let payment_id = PaymentId::derive(&originator, &request_id);
    let view = payment_status::find(&state, &payment_id).await?;
    Ok(Json(StatusBody::new(view, &state.http.base_url)))
}

/// The originator that an account is by itself. Its family shows in its form: hex for EVM, 25 bytes of Base58 for Tron,
/// 32 bytes for Solana.
fn of_account(text: &str) -> Result<String, ApiError> {
    let family = if text.starts_with("0x") { Family::Evm } else { Family::Solana };
    let account = Account::parse(Family::Tron, text).or_else(|_| Account::parse(family, text));
    account.map(|account| account.originator()).map_err(|_| {
        invalid("account: must be an EVM address, a Tron address or a Solana account, with a right checksum")
    })
}

/// The originator as it is stored: a DID and an account behind its namespace normalised.
fn of_originator(text: &str) -> Result<String, ApiError> {
    if let Ok(did) = text.parse::<Did>() {
        return Ok(did.to_string());
    }
    let families = [Family::Evm, Family::Solana, Family::Tron];
    let account = text.split_once(':').and_then(|(namespace, account)| {
        let family = families.into_iter().find(|family| family.namespace() == namespace)?;
        Account::parse(family, account).ok()
    });
    account.map(|account| account.originator()).ok_or_else(|| {
        invalid("originator: must be a DID, or eip155:, solana: or tron: followed by an account of that family")
    })
}

fn invalid(message: &str) -> ApiError {
    ApiError::new(Code::INVALID_REQUEST, message)
}
