//! Settling a payment for a merchant: a submission under its requirement.
//!
//! The identifier is bound before the payment is appended, and only to a payload that passed every other check: so a
//! second payload under it can never be accepted, wherever and whenever it comes, and nobody can take an identifier
//! without a payment that he signed and that his budget has paid for. A binding whose payment was not appended binds nothing
//! but the identifier to the payload; the identical call goes through.

use std::time::Duration;

use net::callers::Caller;
use projections::PaymentView;

use super::{
    Refusal,
    checks::{Checked, Payment, check},
    message::{Call, Message},
};
use crate::{
    App,
    admission::writes::Permit,
    error::Code,
    payment_identifiers::Binding,
    submit::{Accepted, Submission, Verdict},
};

/// A payment that there is, before or by this call.
pub struct Settled {
    /// The payment as it stands.
    pub view: PaymentView,
    /// Whether it was there before.
    pub replay: bool,
    /// How long the merchant waits for its delivery.
    pub timeout: Duration,
}

/// Accepts the payment of a call, or finds the one that was settled with this payload.
///
/// # Errors
/// What the call is answered with.
pub async fn settle(
    state: &App,
    correlation: &str,
    caller: Caller,
    call: Call,
    permit: Permit,
) -> Result<Settled, Refusal> {
    let Checked { message, payment } = check(state, caller, call).await?;
    let timeout = Duration::from_secs(message.requirement.timeout_seconds_max);
    let settled = |view, replay| Settled { view, replay, timeout };
    let submission = match payment {
        Payment::Known(view) => return Ok(settled(*view, true)),
        Payment::Due(submission) => submission,
    };
    let admitted = match admit(state, &message, &submission).await? {
        Verdict::Replay(view) => return Ok(settled(*view, true)),
        Verdict::New(admitted) => admitted,
    };
    Ok(match submission.append(state, admitted, correlation, permit).await? {
        Accepted::New(view) => settled(view, false),
        Accepted::Before(view) => settled(submission.replay(view)?, true),
    })
}

/// Makes every check that is left, and binds the payment identifier to this payload.
async fn admit(state: &App, message: &Message, submission: &Submission) -> Result<Verdict, Refusal> {
    let verdict = submission.judge(state, &state.services.admission).await?;
    // A binding is for ever: it is paid for first, by whom it is made for, or by who asks where anybody could.
    match &verdict {
        Verdict::New(_) => submission.charge()?,
        Verdict::Replay(_) if message.identifier.is_some() => submission.charge_for_identifier()?,
        Verdict::Replay(_) => {}
    }
    bind_identifier(state, message, submission).await?;
    Ok(verdict)
}

/// Binds the payment identifier to this payload.
async fn bind_identifier(state: &App, message: &Message, submission: &Submission) -> Result<(), Refusal> {
    let Some(identifier) = &message.identifier else { return Ok(()) };
    let Submission { payment_id, terms_hash, .. } = submission;
    let binding = Binding { payload: message.fingerprint, payment_id: payment_id.clone(), terms_hash: *terms_hash };
    let bound = state.services.identifiers.bind(identifier, &binding).await.map_err(|error| {
        tracing::warn!(%error, "a payment identifier cannot be bound");
        Code::SERVICE_UNAVAILABLE
    })?;
    if bound.payload == message.fingerprint { Ok(()) } else { Err(Code::PAYMENT_IDENTIFIER_CONFLICT.into()) }
}
