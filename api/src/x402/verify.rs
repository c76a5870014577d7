//! `POST /x402/v1/verify`: every check of a settle; nothing is accepted.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use app::x402::{Verified, verify};

use super::{
    answer::{self, Refused},
    call,
    outline::Outline,
};
use crate::{error::ApiError, state::HttpState, write::Write};

/// Judges a payment.
pub(crate) async fn handle(State(state): State<Arc<HttpState>>, write: Result<Write, ApiError>) -> Response {
    let base_url = &state.http.base_url;
    let mut outline = Outline::default();
    match judge(&state, write, &mut outline).await {
        Ok(Verified::New(payment_id)) => answer::valid(payment_id, outline),
        Ok(Verified::Known(view)) => answer::known(&view, outline, base_url),
        Ok(Verified::Told(view)) => answer::told(&view, outline, base_url),
        Err(refused) => answer::not_valid(refused, outline, base_url),
    }
}

async fn judge(state: &HttpState, write: Result<Write, ApiError>, outline: &mut Outline) -> Result<Verified, Refused> {
    let Write { caller, body, permit: _permit, .. } = write.map_err(|error| Refused::of_form(error.0))?;
    let call = call::read(body, state.services.clock.now(), outline)?;
    Ok(verify(state, caller, call).await?)
}
