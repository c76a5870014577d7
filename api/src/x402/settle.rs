//! `POST /x402/v1/settle` (spec 4.4): a submission under a merchant's requirement, held for its delivery.
//!
//! The identifier is claimed before the payment is appended, and only for a payload that passed every other check: so a
//! second payload under it can never be accepted, wherever and whenever it comes, and nobody can take an identifier
//! without a payment that he signed and that his budget has paid for. A claim whose payment was not appended binds nothing
//! but the identifier to the payload; the identical call goes through.

use std::{sync::Arc, time::Duration};

use axum::{Extension, extract::State, response::Response};
use tokio::time::Instant;

use app::{
    error::Code,
    submit::{Accepted, Admitted, Submission, Verdict, outcome},
    x402::Claim,
};
use net::callers::Caller;
use projections::PaymentView;

use super::{
    answer::{self, Refusal},
    message::{Message, Outline},
    verify::{Payment, Read, read},
};
use crate::{body::RawBody, error::ApiError, hold, request_id::RequestId, state::HttpState, write::Write};

/// Settles a payment, or tells what became of the one that was settled with this payload.
pub(crate) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    write: Result<Write, ApiError>,
) -> Response {
    let mut outline = Outline::default();
    let base_url = &state.http.base_url;
    let settled = match write {
        Ok(write) => settle(&state, &correlation, write, &mut outline).await,
        Err(error) => Err(Refusal::of_form(error.0)),
    };
    match settled {
        Ok((view, replay)) => answer::settled(&view, replay, outline, base_url),
        Err(refusal) => answer::not_settled(refusal, outline, base_url),
    }
}

/// The payment as it stands when it is final or the hold is over, and whether it was there before.
async fn settle(
    state: &Arc<HttpState>,
    correlation: &RequestId,
    write: Write,
    outline: &mut Outline,
) -> Result<(PaymentView, bool), Refusal> {
    let begun = Instant::now();
    let hold_max = hold::longest(&write.headers, Duration::from_millis(state.x402.settle_hold_ms_max));
    // Boxed, so that nothing of the message stays in memory while its outcome is waited for.
    let caller = write.caller.clone();
    let Settled { view, replay, timeout } = Box::pin(accept(state, correlation, write, outline)).await?;
    let until = hold_max.min(timeout);
    // Whoever has seen the message can repeat it.
    Ok((outcome(state, &caller, !replay, view, until.saturating_sub(begun.elapsed())).await, replay))
}

/// A payment that there is, before or by this call.
struct Settled {
    view: PaymentView,
    replay: bool,
    /// How long the merchant waits for its delivery.
    timeout: Duration,
}

async fn accept(
    state: &Arc<HttpState>,
    correlation: &RequestId,
    write: Write,
    outline: &mut Outline,
) -> Result<Settled, Refusal> {
    let Write { caller, body, place, .. } = write;
    let Checked { due, timeout } = check(state, caller, body, outline).await?;
    let settled = |view, replay| Settled { view, replay, timeout };
    let (submission, admitted) = match due {
        Due::Known(view) => return Ok(settled(*view, true)),
        Due::New(submission, admitted) => (submission, admitted),
    };
    Ok(match submission.append(state, admitted, correlation.as_str(), place).await? {
        Accepted::New(view) => settled(view, false),
        Accepted::Before(view) => settled(submission.replay(view)?, true),
    })
}

/// A message that passed every check.
struct Checked {
    due: Due,
    timeout: Duration,
}

enum Due {
    /// Its payment is to be accepted, unless another comes first.
    New(Box<Submission>, Box<Admitted>),
    /// Its payment was accepted before.
    Known(Box<PaymentView>),
}

/// Makes every check, and makes the payment identifier this payload's.
async fn check(state: &HttpState, caller: Caller, body: RawBody, outline: &mut Outline) -> Result<Checked, Refusal> {
    let Read { message, payment } = read(state, caller, body, outline).await?;
    let timeout = Duration::from_secs(message.requirement.timeout_seconds_max);
    let submission = match payment {
        Payment::Known(view) => return Ok(Checked { due: Due::Known(view), timeout }),
        Payment::Due(submission) => submission,
    };
    let verdict = submission.judge(state, &state.services.admission).await?;
    // A claim is for ever: it is paid for first, by whom it is made for, or by who asks where anybody could.
    match &verdict {
        Verdict::New(_) => submission.charge()?,
        Verdict::Replay(_) if message.identifier.is_some() => submission.charge_for_identifier()?,
        Verdict::Replay(_) => {}
    }
    claim_identifier(state, &message, &submission).await?;
    let due = match verdict {
        Verdict::Replay(view) => Due::Known(view),
        Verdict::New(admitted) => Due::New(submission, admitted),
    };
    Ok(Checked { due, timeout })
}

/// Makes the payment identifier this payload's.
async fn claim_identifier(state: &HttpState, message: &Message, submission: &Submission) -> Result<(), Refusal> {
    let Some(identifier) = &message.identifier else { return Ok(()) };
    let Submission { payment_id, terms_hash, .. } = submission;
    let claim = Claim { payload: message.fingerprint, payment_id: payment_id.clone(), terms_hash: *terms_hash };
    let holder = state.services.identifiers.claim(identifier, &claim).await.map_err(|error| {
        tracing::warn!(%error, "a payment identifier cannot be claimed");
        Code::SERVICE_UNAVAILABLE
    })?;
    if holder.payload == message.fingerprint { Ok(()) } else { Err(Code::PAYMENT_IDENTIFIER_CONFLICT.into()) }
}
