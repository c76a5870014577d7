//! `POST /v1/payments/quote-requests/{id}/award` (design: HTTP): a payment out of a collected quote.
//!
//! The order of checks is that of a submission: body, then the batch and the quote that it names, because they are what
//! the signature is checked against, then the signature, then a payment that exists, then time and admission.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
};

use app::{award, error::Code, submit, views::payment_body::PaymentResponse};
use events::QuoteRequestId;

use super::{
    error::ApiError,
    long_poll::{self, Applied},
    position::{self, Position},
    request_id::RequestId,
    state::HttpState,
    write::Write,
};

/// Awards the quote, or finds the payment that it was awarded to under this `request_id`, and holds for its outcome.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    path: Result<Path<String>, PathRejection>,
    write: Write,
) -> Result<(Applied, Position, Json<PaymentResponse>), ApiError> {
    let id: Option<QuoteRequestId> = path.ok().and_then(|Path(text)| text.parse().ok());
    let id = id.ok_or(Code::QUOTE_REQUEST_NOT_FOUND)?;
    let Write { caller, arrival, headers, body, permit } = write;
    let long_poll_max = long_poll::longest(&headers, state.long_poll_max());
    let applied = long_poll::applied(&headers, state.long_poll_max());
    // They are not kept for as long as the outcome is waited for.
    drop(headers);
    let accepting = award::accept(&state, id, correlation.as_str(), caller.clone(), body.json()?, permit);
    let (view, replay) = Box::pin(accepting).await?;
    let left = arrival.left(long_poll_max);
    let view = if replay { view } else { submit::outcome(&state, &caller, true, view, left).await };
    let position = position::of(&view);
    Ok((applied, position, Json(PaymentResponse::new(view, replay, &state.http.base_url))))
}
