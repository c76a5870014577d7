//! Rehearsing a submission: all its checks, and nothing is accepted.

use schemars::JsonSchema;
use serde::Serialize;

use events::PaymentId;
use net::callers::Caller;
use projections::PaymentView;

use crate::{App, error::Error, existing::Refused, request::body::JsonBody, schema, submit::Submission};

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
    /// Only where the payment exists: the submission would be a replay, and this is its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "schema::StatusName")]
    status: Option<&'static str>,
}

/// Makes all checks of a submission and accepts nothing.
///
/// # Errors
/// What the submission would be refused with.
pub async fn rehearse(state: &App, caller: Caller, body: JsonBody) -> Result<VerifiedBody, Error> {
    let (payment_id, existing) = match attempt(state, &caller, &body).await {
        Ok(verified) => verified,
        Err(refusal) => {
            let existing = Refused::submission(&body, &caller).answer(state, refusal).await?;
            (existing.view.payment_id.clone(), Some(existing.view))
        }
    };
    Ok(VerifiedBody { valid: true, payment_id, status: existing.map(|view| view.status.as_str()) })
}

async fn attempt(state: &App, caller: &Caller, body: &JsonBody) -> Result<(PaymentId, Option<PaymentView>), Error> {
    let submission = Submission::read(body, caller, state).await?;
    let existing = submission.rehearse(state).await?;
    Ok((submission.payment_id, existing))
}
