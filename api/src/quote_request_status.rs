//! `GET /v1/payments/quote-requests/{id}` (spec 4.5, design: HTTP).

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
};

use app::{error::Code, resolve, views::quote_request_body::QuoteRequestBody};
use events::QuoteRequestId;
use net::callers::Caller;

use super::state::HttpState;
use crate::error::ApiError;

/// The batch as the read model has it, and as the journal has it where the read model has not.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    path: Result<Path<String>, PathRejection>,
) -> Result<Json<QuoteRequestBody>, ApiError> {
    let id: Option<QuoteRequestId> = path.ok().and_then(|Path(text)| text.parse().ok());
    let (view, statistics) = resolve::find_batch(&state, &caller, &id.ok_or(Code::QUOTE_REQUEST_NOT_FOUND)?).await?;
    let now = state.services.clock.now();
    Ok(Json(QuoteRequestBody::new(&view, statistics, now, &state.http.base_url)))
}
