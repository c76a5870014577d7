//! `POST /v1/payments/quote-requests` (spec 4.3).

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Query, State, rejection::QueryRejection},
};
use serde::Deserialize;

use app::{error::Code, open_quote_request, views::quote_request_body::QuoteRequestResponse};

use super::{caller_secret, error::ApiError, long_poll, request_id::RequestId, state::HttpState, write::Write};

#[derive(Deserialize)]
pub(super) struct Parameters {
    wait: Option<String>,
}

/// Opens a batch, or finds the one that was opened under this `request_id`; holds for its quotes when `wait` is true.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    parameters: Result<Query<Parameters>, QueryRejection>,
    write: Write,
) -> Result<Json<QuoteRequestResponse>, ApiError> {
    let long_poll_max = if wait(parameters)? {
        long_poll::longest(&write.headers, Duration::from_millis(state.http.quotes_hold_ms_max))
    } else {
        Duration::ZERO
    };
    let Write { caller, arrival, headers, body, permit } = write;
    let secret = caller_secret::hash(&headers)?;
    drop(headers);
    let opening = open_quote_request::open(&state, correlation.as_str(), &caller, secret, body.json()?, permit);
    let (view, replay) = Box::pin(opening).await?;
    let long_poll_left = arrival.left(long_poll_max);
    let (view, statistics) = open_quote_request::collected(&state, &caller, view, long_poll_left).await;
    Ok(Json(QuoteRequestResponse::new(&view, statistics, replay, &state.http.base_url)))
}

/// Whether to hold for quotes.
fn wait(parameters: Result<Query<Parameters>, QueryRejection>) -> Result<bool, ApiError> {
    match parameters.ok().map(|Query(parameters)| parameters.wait).as_ref().map(Option::as_deref) {
        Some(None | Some("false")) => Ok(false),
        Some(Some("true")) => Ok(true),
        Some(Some(_)) | None => {
            Err(ApiError::new(Code::INVALID_REQUEST, "wait: must be true or false, given at most once"))
        }
    }
}
