//! `POST /v1/payments/mandates/prepare`: what a payer signs once for payments that a merchant asks for (ADR 159).

use std::sync::Arc;

use axum::{Json, extract::State};

use app::mandates::{self, PreparedBody};

use super::{error::ApiError, state::HttpState, write::Write};

/// Makes what the payer signs. Nothing is kept.
pub(super) async fn prepare(State(state): State<Arc<HttpState>>, write: Write) -> Result<Json<PreparedBody>, ApiError> {
    let Write { body, permit: _permit, .. } = write;
    Ok(Json(mandates::prepare(&state, &body.json()?).await?))
}
