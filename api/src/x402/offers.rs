//! `POST /x402/v1/offers` (ADR 154, 160): what stands in a merchant's 402 for stock clients of x402.

use std::sync::Arc;

use axum::{Json, extract::State};

use app::x402::{OfferBody, offer};

use crate::{error::ApiError, state::HttpState, write::Write};

/// Computes the offer. Nothing is kept.
pub(crate) async fn handle(State(state): State<Arc<HttpState>>, write: Write) -> Result<Json<OfferBody>, ApiError> {
    let Write { body, permit: _permit, .. } = write;
    Ok(Json(offer(&state, &body.json()?).await?))
}
