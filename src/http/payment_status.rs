//! `GET /v1/payments/{id}/status` (spec 4.2).

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};

use events::PaymentId;
use journal::ReadError;
use projections::PaymentView;

use super::{
    error::{ApiError, Code},
    payment_body::StatusBody,
    payments::{from_journal, read_failed},
    state::HttpState,
    status_page,
};

/// The payment's status as the read model has it, and as the journal has it where the read model has not; as a page where
/// that is preferred.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    headers: HeaderMap,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let payment_id: Option<PaymentId> = path.ok().and_then(|Path(text)| text.parse().ok());
    let view = find(&state, &payment_id.ok_or(Code::PAYMENT_NOT_FOUND)?).await?;
    let base_url = &state.http.base_url;
    let mut response = if status_page::is_wanted(&headers) {
        state.documents().page(&status_page::render(&view, base_url).into())
    } else {
        Json(StatusBody::new(view, base_url)).into_response()
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// The payment's view, however lately it was accepted and by whichever gateway.
///
/// # Errors
/// 404 when there is no such payment, 503 when that cannot be said, 500 when what is stored of it cannot be read.
pub(super) async fn find(state: &HttpState, payment_id: &PaymentId) -> Result<PaymentView, ApiError> {
    let services = &state.services;
    if let Ok(Some(view)) = services.payments.view(payment_id).await {
        return Ok(view);
    }
    let view = match from_journal(services.journal.as_ref(), payment_id).await {
        // A view that may be behind says more than none; what is not in it may well exist.
        Err(error @ ReadError::Unavailable(_)) => {
            let behind = services.payments.changed(payment_id, 0, Duration::ZERO).await;
            return behind.ok_or_else(|| read_failed(&error));
        }
        read => read.map_err(|error| read_failed(&error).about(payment_id))?,
    };
    view.ok_or_else(|| Code::PAYMENT_NOT_FOUND.into())
}
