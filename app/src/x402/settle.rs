//! Settling a payment for a merchant: a submission under its requirement.
//!
//! The identifier is bound before the payment is appended, and only to a payload that passed every other check: so a
//! second payload under it can never be accepted, wherever and whenever it comes, and nobody can take an identifier
//! without a payment that he signed and that his budget has paid for. A binding whose payment was not appended binds nothing
//! but the identifier to the payload; the identical call goes through.

use std::{sync::Arc, time::Duration};

use events::{Hash32, PaymentId};
use net::callers::{Caller, Kind, price};
use projections::PaymentView;

use super::{
    Refusal,
    checks::{Payment, check, check_new, check_replay, existing},
    message::{Call, Message},
};
use crate::{
    App,
    admission::write_permits::Permit,
    error::{Code, Error},
    payment_identifiers::Binding,
    submit::{Accepted, Submission, Verdict},
};

/// The outcome of a settle: a payment that there is, before or by this call.
pub struct SettleOutcome {
    /// Whether the payment is of a stock client, whose merchant is told of it once; see [`super::tell_once`].
    pub is_exact: bool,
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
) -> Result<SettleOutcome, Refusal> {
    let (permit, timeout) = (Arc::new(permit), call.message.requirement.timeout());
    let is_exact = call.message.is_exact();
    let (view, replay) = match attempt(state, correlation, &caller, &call, &permit).await {
        Ok(found) => found,
        Err(refusal) => {
            let view = existing(state, &caller, &call, refusal).await?;
            if call.message.identifier.is_some() {
                charge_for_identifier(&caller)?;
            }
            bind_identifier(state, &call.message, &view.payment_id, view.terms_hash).await?;
            (*view, true)
        }
    };
    Ok(SettleOutcome { is_exact, view, replay, timeout })
}

async fn attempt(
    state: &App,
    correlation: &str,
    caller: &Caller,
    call: &Call,
    permit: &Arc<Permit>,
) -> Result<(PaymentView, bool), Refusal> {
    let submission = match check(state, caller, call).await? {
        Payment::Known(view) => return Ok((*view, true)),
        Payment::Due(submission) => submission,
    };
    trace::join_current(submission.payment_id.as_str());
    let admitted = match admit(state, caller, &call.message, &submission).await? {
        Verdict::Replay(view) => return Ok((*view, true)),
        Verdict::New(admitted) => admitted,
    };
    Ok(match submission.append(state, admitted, correlation, permit).await? {
        Accepted::New(view) => (view, false),
        Accepted::Before(view) => {
            let view = submission.replay(view)?;
            check_replay(state, &call.message, &view.payment_id).await?;
            (view, true)
        }
    })
}

/// Makes every check that is left, and binds the payment identifier to this payload.
async fn admit(
    state: &App,
    caller: &Caller,
    message: &Message,
    submission: &Submission<'_>,
) -> Result<Verdict, Refusal> {
    let verdict = submission.judge(state, &state.services.admission).await?;
    match &verdict {
        Verdict::New(_) => check_new(submission)?,
        Verdict::Replay(view) => check_replay(state, message, &view.payment_id).await?,
    }
    // A binding is for ever: it is paid for first, by whom it is made for, or by who asks where anybody could.
    match &verdict {
        Verdict::New(_) => submission.charge()?,
        Verdict::Replay(_) if message.identifier.is_some() => charge_for_identifier(caller)?,
        Verdict::Replay(_) => {}
    }
    bind_identifier(state, message, &submission.payment_id, submission.terms_hash).await?;
    Ok(verdict)
}

/// Takes what it costs to bind an identifier to a payment that there is, of the address that asks.
fn charge_for_identifier(caller: &Caller) -> Result<(), Error> {
    Ok(caller.spend(Kind::Unsigned, price::IDENTIFIER)?)
}

/// Binds the payment identifier to this payload.
async fn bind_identifier(
    state: &App,
    message: &Message,
    payment_id: &PaymentId,
    terms_hash: Hash32,
) -> Result<(), Refusal> {
    let Some(identifier) = &message.identifier else { return Ok(()) };
    let binding = Binding { payload: message.fingerprint, payment_id: payment_id.clone(), terms_hash };
    let bound = state.services.identifiers.bind(identifier, &binding).await.map_err(|error| {
        tracing::warn!(%error, "a payment identifier cannot be bound");
        Code::SERVICE_UNAVAILABLE
    })?;
    if bound.payload == message.fingerprint { Ok(()) } else { Err(Code::PAYMENT_IDENTIFIER_CONFLICT.into()) }
}
