//! `POST /v1/payments` (spec 4.1).

use std::sync::Arc;

use axum::{Extension, Json, extract::State};

use app::{submit, views::payment_body::PaymentResponse};

use super::{
    error::ApiError,
    long_poll::{self, Applied},
    position::{self, Position},
    request_id::RequestId,
    state::HttpState,
    write::Write,
};

/// Accepts a payment, or finds the one that was accepted under this `request_id`, and holds for its outcome.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    write: Write,
) -> Result<(Applied, Position, Json<PaymentResponse>), ApiError> {
    let Write { caller, arrival, headers, body, permit } = write;
    let long_poll_max = long_poll::longest(&headers, state.long_poll_max());
    let applied = long_poll::applied(&headers, state.long_poll_max());
    // They are not kept for as long as the outcome is waited for.
    drop(headers);
    // Boxed, so that nothing of the submission stays in memory while its outcome is waited for.
    let accepting = submit::accept(&state, correlation.as_str(), caller.clone(), body.json()?, permit);
    let (view, replay) = Box::pin(accepting).await?;
    let left = arrival.left(long_poll_max);
    let view = if replay { view } else { submit::outcome(&state, &caller, true, view, left).await };
    let position = position::of(&view);
    Ok((applied, position, Json(PaymentResponse::new(view, replay, &state.http.base_url))))
}
