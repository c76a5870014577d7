//! `GET /v1/payments/{id}/status` (spec 4.2).

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};

use app::{error::Code, resolve, views::payment_body::StatusBody};
use events::PaymentId;
use net::callers::Caller;

use super::{pages, position, state::HttpState};
use crate::error::ApiError;

/// The payment's status as the read model has it, and as the journal has it where the read model has not; as a page where
/// that is preferred.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    path: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let payment_id: Option<PaymentId> = path.ok().and_then(|Path(text)| text.parse().ok());
    let (payment_id, seen) = (payment_id.ok_or(Code::PAYMENT_NOT_FOUND)?, position::seen(&headers)?);
    let view = resolve::find_recent(&state, &caller, &payment_id, seen).await?;
    let position = position::of(&view);
    let base_url = &state.http.base_url;
    let mut response = if pages::is_wanted(&headers) {
        pages::of_payment(&state, &view).await
    } else {
        Json(StatusBody::new(view, state.services.heads.as_ref(), base_url)).into_response()
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok((position, response).into_response())
}
