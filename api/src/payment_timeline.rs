//! `GET /v1/payments/{id}/timeline`: everything that happened to a payment (design: HTTP).

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};

use app::{error::Code, timeline, views::timeline_body::TimelineBody};
use events::PaymentId;

use super::state::HttpState;
use crate::error::ApiError;

/// The payment's history as the journal has it.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<TimelineBody>, ApiError> {
    let payment_id: Option<PaymentId> = path.ok().and_then(|Path(text)| text.parse().ok());
    Ok(Json(timeline::read(&state, &payment_id.ok_or(Code::PAYMENT_NOT_FOUND)?).await?.into()))
}
