//! `POST /x402/v1/settle` (spec 4.4): a submission under a merchant's requirement, held for its delivery.

use std::{sync::Arc, time::Duration};

use axum::{Extension, extract::State, response::Response};

use app::{
    submit::outcome,
    x402::{SettleOutcome, settle, tell_once},
};

use super::{
    answer::{self, Held, Refused},
    call,
    outline::Outline,
};
use crate::{error::ApiError, long_poll, request_id::RequestId, state::HttpState, write::Write};

/// Settles a payment, or tells what became of the one that was settled with this payload.
pub(crate) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    write: Result<Write, ApiError>,
) -> Response {
    let mut outline = Outline::default();
    let base_url = &state.http.base_url;
    match held(&state, &correlation, write, &mut outline).await {
        Ok(held) => answer::settle_outcome(&held, outline, base_url),
        Err(refused) => answer::settle_refused(refused, outline, base_url),
    }
}

/// The payment as it stands when it is final or the long poll is over.
async fn held(
    state: &HttpState,
    correlation: &RequestId,
    write: Result<Write, ApiError>,
    outline: &mut Outline,
) -> Result<Held, Refused> {
    let write = write.map_err(|error| Refused::of_form(error.0))?;
    let Write { caller, arrival, headers, body, permit } = write;
    let long_poll_max = long_poll::longest(&headers, Duration::from_millis(state.x402.settle_hold_ms_max));
    // They are not kept for as long as the outcome is waited for.
    drop(headers);
    let call = call::read(body, state.services.clock.now(), outline)?;
    // Boxed, so that nothing of the message stays in memory while its outcome is waited for.
    let settling = settle(state, correlation.as_str(), caller.clone(), call, permit);
    let SettleOutcome { is_exact, view, replay, timeout } = Box::pin(settling).await?;
    let longest = long_poll_max.min(timeout);
    // Whoever has seen the message can repeat it.
    let view = outcome(state, &caller, !replay, view, arrival.left(longest)).await;
    let held = longest.min(arrival.elapsed());
    let is_cut = !view.status.is_final() && held < timeout;
    let telling = match is_exact && view.is_merchant_paid() {
        true => Some(tell_once(state, &view).await),
        false => None,
    };
    Ok(Held { view, replay, telling, cut_to_seconds: is_cut.then_some(held.as_secs()) })
}
