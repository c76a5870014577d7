//! `GET /v1/payments/{id}/status` (spec 4.2).

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};

use events::PaymentId;

use super::{
    error::{ApiError, Code},
    payment_body::StatusBody,
    payments::{from_journal, read_failed},
    state::HttpState,
};

/// The payment's status as the read model has it, and as the journal has it where the read model has not.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<StatusBody>, ApiError> {
    let payment_id: Option<PaymentId> = path.ok().and_then(|Path(text)| text.parse().ok());
    let payment_id = payment_id.ok_or(Code::PAYMENT_NOT_FOUND)?;
    let services = &state.services;
    let view = match services.payments.view(&payment_id).await {
        Ok(Some(view)) => Some(view),
        Ok(None) | Err(_) => {
            from_journal(services.journal.as_ref(), &payment_id).await.map_err(|error| read_failed(&error))?
        }
    };
    let view = view.ok_or(Code::PAYMENT_NOT_FOUND)?;
    Ok(Json(StatusBody::new(view, &state.http.base_url)))
}
