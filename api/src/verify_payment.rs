//! `POST /v1/payments/verify`: a submission rehearsed (design: HTTP).
//!
//! Every refusal is the one that the submission would get at this moment, with its status and its ErrorResponse: 400, 401,
//! 403, 409, 413, 429, 500 or 503. So a client handles both calls with the same code, and 200 means that the submission would
//! be answered with 200, once the service accepts anything: a pause is not a refusal of this one.

use std::sync::Arc;

use axum::{Json, extract::State};

use app::rehearse::{VerifiedBody, rehearse};

use super::{error::ApiError, state::HttpState, write::Write};

/// Makes all checks of a submission and accepts nothing.
pub(super) async fn handle(State(state): State<Arc<HttpState>>, write: Write) -> Result<Json<VerifiedBody>, ApiError> {
    let Write { caller, body, permit: _permit, .. } = write;
    Ok(Json(rehearse(&state, caller, body.json()?).await?))
}
