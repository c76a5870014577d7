//! `POST /x402/v1/verify`: every check of a settle; nothing is accepted.

use std::sync::Arc;

use axum::{extract::State, response::Response};

use app::{
    error::{Code, Error},
    submit::{Submission, Verdict},
    x402::Claim,
};
use net::callers::Caller;
use projections::PaymentView;

use super::{
    answer::{self, Refusal},
    is_source,
    matching::Resolved,
    message::{Message, Outline},
};
use crate::{body::RawBody, error::ApiError, state::HttpState, write::Write};

/// Judges a payment.
pub(crate) async fn handle(State(state): State<Arc<HttpState>>, write: Result<Write, ApiError>) -> Response {
    let base_url = &state.http.base_url;
    let Write { caller, body, place: _place, .. } = match write {
        Ok(write) => write,
        Err(error) => return answer::not_valid(Refusal::of_form(error.0), Outline::default(), base_url),
    };
    let mut outline = Outline::default();
    match judge(&state, caller, body, &mut outline).await {
        Ok(Judged::New(submission)) => answer::valid(submission.payment_id, outline),
        Ok(Judged::Known(view)) => answer::known(&view, outline, base_url),
        Err(refusal) => answer::not_valid(refusal, outline, base_url),
    }
}

enum Judged {
    New(Box<Submission>),
    Known(Box<PaymentView>),
}

async fn judge(state: &HttpState, caller: Caller, body: RawBody, outline: &mut Outline) -> Result<Judged, Refusal> {
    let submission = match read(state, caller, body, outline).await?.payment {
        Payment::Due(submission) => submission,
        Payment::Known(view) => return Ok(Judged::Known(view)),
    };
    let verdict = submission.judge(state, &state.services.admission.unpaused()).await?;
    Ok(match verdict {
        Verdict::Replay(view) => Judged::Known(view),
        // A settle would find out by its append.
        Verdict::New(_) => match submission.stored(state).await? {
            Some(view) => Judged::Known(Box::new(view)),
            None => Judged::New(submission),
        },
    })
}

/// A message whose payment is what its requirement asks for.
pub(super) struct Read {
    pub(super) message: Message,
    pub(super) payment: Payment,
}

/// The payment of a message.
pub(super) enum Payment {
    /// It has to be judged.
    Due(Box<Submission>),
    /// It was made with this very payload, as its identifier shows.
    Known(Box<PaymentView>),
}

/// Reads a message and checks everything that needs no signature. `outline` is set as soon as there is one.
///
/// # Errors
/// What the call is answered with.
pub(super) async fn read(
    state: &HttpState,
    caller: Caller,
    body: RawBody,
    outline: &mut Outline,
) -> Result<Read, Refusal> {
    let deprecated = body.deprecated.clone();
    let body = body.json().map_err(|error| Refusal::of_form(error.0))?;
    *outline = Outline::of(&body.members);
    let (message, request) = Message::read(&body).map_err(Refusal::of_form)?;
    deprecated.note(&request.members);
    if let Some(claim) = claim_on_identifier(state, &message).await? {
        message.check_accepted()?;
        // The payload passed every other check when it made the payment, to the byte, and contracts, clocks and keys may
        // have changed since.
        if let Some(view) = payment_of(state, claim).await? {
            return Ok(Read { message, payment: Payment::Known(Box::new(view)) });
        }
    }
    // The form of the request comes before every judgement.
    let submission = Submission::read(request, caller, state).await.map_err(Refusal::of_form)?;
    message.check_accepted()?;
    let resolved = Resolved::new(&message.requirement, &state.corridors)?;
    outline.network = resolved.destination_chain().to_string();
    if !resolved.source_family().is_some_and(is_source) {
        let rule =
            "paymentRequirements.network: is no source of x402 payments; /x402/v1/supported lists those that are";
        return Err(Error::new(Code::INVALID_NETWORK, rule).into());
    }
    resolved.check(submission.order(), &state.corridors, state.services.clock.now())?;
    Ok(Read { message, payment: Payment::Due(Box::new(submission)) })
}

/// This payload's claim on its identifier, where it made one before.
///
/// # Errors
/// `PAYMENT_IDENTIFIER_CONFLICT` when the identifier belongs to another payload.
async fn claim_on_identifier(state: &HttpState, message: &Message) -> Result<Option<Claim>, Refusal> {
    let Some(identifier) = &message.identifier else { return Ok(None) };
    let holder = state.services.identifiers.holder(identifier).await.map_err(|error| {
        tracing::warn!(%error, "a payment identifier cannot be looked up");
        Code::SERVICE_UNAVAILABLE
    })?;
    match holder {
        Some(holder) if holder.payload != message.fingerprint => Err(Code::PAYMENT_IDENTIFIER_CONFLICT.into()),
        holder => Ok(holder),
    }
}

/// The payment that a claim was made for. There is none when its append failed, and another one when somebody else's came
/// first under the same request id.
async fn payment_of(state: &HttpState, claim: Claim) -> Result<Option<PaymentView>, Error> {
    match app::resolve::find(state, &claim.payment_id).await {
        Ok(view) => Ok(Some(view).filter(|view| view.terms_hash == claim.terms_hash)),
        Err(error) if *error.code == *Code::PAYMENT_NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}
