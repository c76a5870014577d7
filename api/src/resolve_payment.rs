//! `GET /v1/payments/resolve`: the payment of a request id (design: HTTP).

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Query, State, rejection::QueryRejection},
    http::HeaderMap,
};
use serde::Deserialize;

use app::{error::Code, request::order, resolve, views::payment_body::StatusBody};
use events::PaymentId;
use net::callers::Caller;

use super::{
    position::{self, Position},
    state::HttpState,
};
use crate::error::ApiError;

#[derive(Deserialize)]
pub(super) struct Parameters {
    request_id: Option<String>,
    account: Option<String>,
    originator: Option<String>,
}

/// The status of the payment that this originator asked for under this request id.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    parameters: Result<Query<Parameters>, QueryRejection>,
) -> Result<(Position, Json<StatusBody>), ApiError> {
    let rule = "request_id, account and originator: each must be given at most once";
    let Query(Parameters { request_id, account, originator }) = parameters.map_err(|_| invalid(rule))?;
    let request_id = request_id.ok_or_else(|| invalid("request_id: is required"))?;
    if !order::is_request_id(&request_id) {
        let rule = format!("request_id: {}", order::REQUEST_ID_RULE);
        return Err(ApiError::new(Code::INVALID_REQUEST_ID, rule));
    }
    let originator = match (account, originator) {
        (Some(account), None) => resolve::of_account(&account)?,
        (None, Some(originator)) => resolve::of_originator(&originator)?,
        (Some(_), Some(_)) | (None, None) => {
            return Err(invalid("account, originator: exactly one of them must be given"));
        }
    };
    let payment_id = PaymentId::derive(&originator, &request_id);
    let view = resolve::find_recent(&state, &caller, &payment_id, position::seen(&headers)?).await?;
    let position = position::of(&view);
    Ok((position, Json(StatusBody::new(view, state.services.heads.as_ref(), &state.http.base_url))))
}

fn invalid(message: &str) -> ApiError {
    ApiError::new(Code::INVALID_REQUEST, message)
}
