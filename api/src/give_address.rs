//! `POST /v1/payments/quote-requests/{id}/address` (ADR 153): a payment whose payer sends its money to an address.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
};

use app::{deposit_address, error::Code, views::payment_body::PaymentResponse};
use events::QuoteRequestId;

use super::{
    caller_secret,
    error::ApiError,
    position::{self, Position},
    request_id::RequestId,
    state::HttpState,
    write::Write,
};

/// Gives the quote-request's deposit address, or finds the one that it has. Nothing is waited for: the payer has to send first.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    path: Result<Path<String>, PathRejection>,
    write: Write,
) -> Result<(Position, Json<PaymentResponse>), ApiError> {
    let id: Option<QuoteRequestId> = path.ok().and_then(|Path(text)| text.parse().ok());
    let id = id.ok_or(Code::QUOTE_REQUEST_NOT_FOUND)?;
    let Write { caller, headers, body, permit, .. } = write;
    let secret = caller_secret::hash(&headers)?;
    let giving = deposit_address::accept(&state, id, correlation.as_str(), &caller, secret, body.json()?, permit);
    let (view, replay) = Box::pin(giving).await?;
    let position = position::of(&view);
    Ok((position, Json(PaymentResponse::new(view, replay, &state.http.base_url))))
}
