//! Rehearsing a submission: all its checks, and nothing is accepted.

use schemars::JsonSchema;
use serde::Serialize;

use events::PaymentId;
use net::callers::Caller;

use crate::{
    App,
    error::Error,
    request::body::JsonBody,
    schema,
    submit::{Submission, Verdict},
};

/// A submission that would be accepted, or is a replay.
// Body of the 200.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Verification")]
pub struct VerifiedBody {
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
///
/// # Errors
/// What the submission would be refused with.
pub async fn rehearse(state: &App, caller: Caller, body: JsonBody) -> Result<VerifiedBody, Error> {
    let submission = Submission::read(body, caller, state).await?;
    let existing = match submission.judge(state, &state.services.admission.unpaused()).await? {
        Verdict::Replay(view) => Some(*view),
        // A submission would find out by its append.
        Verdict::New(_) => submission.stored(state).await?,
    };
    Ok(VerifiedBody {
        valid: true,
        payment_id: submission.payment_id,
        idempotent_replay: existing.is_some(),
        status: existing.map(|view| view.status.as_str()),
    })
}
