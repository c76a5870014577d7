//! `GET /v1/payments/quote-requests/{id}` (spec 4.5, design: HTTP).

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};

use app::{
    error::Code,
    views::{
        payments::read_failed,
        quote_request_body::QuoteRequestBody,
        quote_requests::{from_journal, statistics},
    },
};

use super::state::HttpState;
use crate::error::ApiError;

/// The batch as the read model has it, and as the journal has it where the read model has not.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<QuoteRequestBody>, ApiError> {
    let id = path.ok().and_then(|Path(text)| text.parse().ok()).ok_or(Code::QUOTE_REQUEST_NOT_FOUND)?;
    let services = &state.services;
    let view = match services.quote_requests.view(&id).await {
        Ok(Some(view)) => Some(view),
        Ok(None) | Err(_) => from_journal(services.journal.as_ref(), &id).await.map_err(|error| read_failed(&error))?,
    };
    let view = view.ok_or(Code::QUOTE_REQUEST_NOT_FOUND)?;
    let statistics = statistics(state.services.journal.as_ref(), state.services.auctions.as_ref(), &view).await;
    let now = services.clock.now();
    Ok(Json(QuoteRequestBody::new(&view, statistics, now, &state.http.base_url)))
}
