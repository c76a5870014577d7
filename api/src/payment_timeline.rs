//! `GET /v1/payments/{id}/timeline`: everything that happened to a payment (design: HTTP).

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};

use app::{
    error::Code,
    views::{
        payments::read_failed,
        timeline_body::{History, TimelineBody},
    },
};
use events::PaymentId;
use journal::{ReadError, envelope};

use super::state::HttpState;
use crate::error::ApiError;

/// The payment's history as the journal has it.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<TimelineBody>, ApiError> {
    let payment_id = path.ok().and_then(|Path(text)| text.parse().ok()).ok_or(Code::PAYMENT_NOT_FOUND)?;
    let history = history(&state, &payment_id).await.map_err(|error| read_failed(&error))?;
    Ok(Json(history.ok_or(Code::PAYMENT_NOT_FOUND)?.into()))
}

/// The history of a payment; `None` proves that there is no such payment.
pub(super) async fn history(state: &HttpState, payment_id: &PaymentId) -> Result<Option<History>, ReadError> {
    let commits = state.services.journal.load(&payment_id.into()).await?;
    let Some(first) = commits.first() else { return Ok(None) };
    let unreadable = || ReadError::Unreadable {
        shard: first.position.shard,
        sequence: first.position.sequence,
        subject: Some(envelope::subject(first.position.shard, &first.stream_id)),
        reason: "the payment's first commit is not a submission".to_owned(),
    };
    History::of(&commits, &state.http.base_url).map(Some).ok_or_else(unreadable)
}
