//! `POST /v1/payments/verify`: a submission rehearsed (design: HTTP).
//!
//! Every refusal is the one that the submission would get at this moment, with its status and its ErrorResponse: 400, 401,
//! 403, 409, 413, 429, 500 or 503. So a client handles both calls with the same code, and 200 means that the submission would
//! be answered with 200, once the service accepts anything: a pause is no refusal of this one.

use std::sync::Arc;

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::Serialize;

use events::PaymentId;

use super::{
    error::ApiError,
    schema,
    state::HttpState,
    submit_payment::{Submission, Verdict},
    writes::Write,
};

/// A submission that would be accepted, or is a replay.
// Body of the 200.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Verification")]
pub(super) struct VerifiedBody {
    /// Every refusal is an error.
    #[schemars(extend("const" = true))]
    valid: bool,
    /// Tracking id of the payment.
    // The one that it would have, or has.
    payment_id: PaymentId,
    /// Whether the submission would be answered with a payment that exists.
    idempotent_replay: bool,
    // That payment's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::StatusName")]
    status: Option<&'static str>,
}

/// Makes all checks of a submission and accepts nothing.
pub(super) async fn handle(State(state): State<Arc<HttpState>>, write: Write) -> Result<Json<VerifiedBody>, ApiError> {
    let Write { caller, body, place: _place, .. } = write;
    let judged = {
        let state = Arc::clone(&state);
        async move {
            let submission = Submission::read(body.json()?, caller, &state).await?;
            let existing = match submission.judge(&state, &state.services.admission.unpaused()).await? {
                Verdict::Replay(view) => Some(*view),
                // A submission would find out by its append.
                Verdict::New(_) => submission.stored(&state).await?,
            };
            Ok(Json(VerifiedBody {
                valid: true,
                payment_id: submission.payment_id,
                idempotent_replay: existing.is_some(),
                status: existing.map(|view| view.status.as_str()),
            }))
        }
    };
    state.checks.run(judged).await?
}
