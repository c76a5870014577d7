//! `POST /x402/v1/settle` (spec 4.4): a submission under a merchant's requirement, held for its delivery.
//!
//! The identifier is claimed before the payment is appended, and only for a payload that passed every other check: so a
//! second payload under it can never be accepted, wherever and whenever it comes, and nobody can take an identifier
//! without a payment that he signed. A claim whose payment was not appended binds nothing but the identifier to the
//! payload; the identical call goes through.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use tokio::time::Instant;

use projections::PaymentView;

use super::{
    answer::{self, Refusal},
    identifiers::Claim,
    message::{Message, Outline},
    verify::{Payment, Read, read},
};
use crate::http::{
    error::Code,
    hold,
    request_id::RequestId,
    state::HttpState,
    submit_payment::{Accepted, Submission, Verdict, outcome},
};

/// Settles a payment, or tells what became of the one that was settled with this payload.
pub(in crate::http) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    request: Request,
) -> Response {
    let mut outline = Outline::default();
    let base_url = &state.http.base_url;
    match settle(&state, &correlation, request, &mut outline).await {
        Ok((view, replay)) => answer::settled(&view, replay, outline, base_url),
        Err(refusal) => answer::not_settled(refusal, outline, base_url),
    }
}

/// The payment as it stands when it is final or the hold is over, and whether it was there before.
async fn settle(
    state: &HttpState,
    correlation: &RequestId,
    request: Request,
    outline: &mut Outline,
) -> Result<(PaymentView, bool), Refusal> {
    let begun = Instant::now();
    let hold_max = hold::longest(request.headers(), Duration::from_millis(state.x402.settle_hold_ms_max));
    let Read { message, payment } = read(state, request, outline).await?;
    let (view, replay) = match payment {
        Payment::Known(view) => (*view, true),
        Payment::Due(submission) => submit(state, &message, &submission, correlation).await?,
    };
    let until = hold_max.min(Duration::from_secs(message.requirement.timeout_seconds_max));
    Ok((outcome(state, view, until.saturating_sub(begun.elapsed())).await, replay))
}

async fn submit(
    state: &HttpState,
    message: &Message,
    submission: &Submission,
    correlation: &RequestId,
) -> Result<(PaymentView, bool), Refusal> {
    let verdict = submission.judge(state, &state.services.admission).await?;
    claim_identifier(state, message, submission).await?;
    let admitted = match verdict {
        Verdict::Replay(view) => return Ok((*view, true)),
        Verdict::New(admitted) => admitted,
    };
    Ok(match submission.append(state, admitted, correlation).await? {
        Accepted::New(view) => (view, false),
        Accepted::Before(view) => (submission.replay(view)?, true),
    })
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
