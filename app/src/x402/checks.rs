//! Checks that verify and settle have in common, before a signature is judged.

use events::{Family, PaymentId, event::Submitted};
use net::callers::Caller;
use projections::PaymentView;

use super::{
    Refusal,
    matching::Resolved,
    message::{Call, Message},
};
use crate::{
    App,
    error::{Code, Error},
    existing::{Refused, accepted_with},
    payment_identifiers::Binding,
    resolve,
    submit::Submission,
};

/// The payment of a message that is what its requirement asks for.
pub(super) enum Payment<'a> {
    /// It has to be judged.
    Due(Box<Submission<'a>>),
    /// It was made with this very payload, as its identifier shows.
    Known(Box<PaymentView>),
}

/// Checks everything that needs no signature.
///
/// # Errors
/// What the call is answered with.
pub(super) async fn check<'a>(state: &App, caller: &'a Caller, call: &'a Call) -> Result<Payment<'a>, Refusal> {
    let Call { request, message, .. } = call;
    if let Some(binding) = binding(state, message).await? {
        message.check_accepted()?;
        // The payload passed every other check when it was bound, to the byte, and contracts, clocks and keys may have changed
        // since. The payment may have come before it, with other deadlines.
        if let Some(view) = payment_of(state, binding).await? {
            check_replay(state, message, &view.payment_id).await?;
            return Ok(Payment::Known(Box::new(view)));
        }
    }
    // The form of the request comes before every judgement; the one of a stock client is made of the requirement, so that comes first.
    let resolved = || Resolved::new(&message.requirement, &state.corridors).map_err(Error::from);
    let (submission, resolved) = match message.is_exact() {
        true => {
            let resolved = resolved()?;
            let submission =
                Submission::of_purchase(request, call.buyer(), caller, state).await.map_err(Refusal::Form)?;
            message.check_accepted()?;
            (submission, resolved)
        }
        false => {
            let submission = Submission::read(request, caller, state).await.map_err(Refusal::Form)?;
            message.check_accepted()?;
            (submission, resolved()?)
        }
    };
    resolved.check(submission.order(), state.services.clock.now())?;
    Ok(Payment::Due(Box::new(submission)))
}

/// The payment that a refused message is a replay of: authorised, and what the merchant asks for, whatever the configuration
/// says now.
///
/// # Errors
/// What the call is answered with instead.
pub(super) async fn existing(
    state: &App,
    caller: &Caller,
    call: &Call,
    refusal: Refusal,
) -> Result<Box<PaymentView>, Refusal> {
    let mut refused = Refused::submission(&call.request, caller);
    if let (Some(buyer), Some(stated)) = (call.buyer(), &mut refused.stated) {
        stated.originator = buyer.originator();
    }
    let (refusal, again): (Error, fn(Error) -> Refusal) = match refusal {
        Refusal::Form(refusal) => (refusal, Refusal::Form),
        Refusal::Payment(refusal) => (refusal, Refusal::Payment),
    };
    // Which payload an identifier belongs to is not a question of the payment.
    if *refusal.code == *Code::PAYMENT_IDENTIFIER_CONFLICT {
        return Err(again(refusal));
    }
    let existing = refused.answer(state, refusal).await.map_err(again)?;
    call.message.check_accepted().map_err(|error| Refusal::Payment(error.about(&existing.view.payment_id).exists()))?;
    compare(&call.message, &existing.submitted)?;
    Ok(Box::new(existing.view))
}

/// Whether a payment that was accepted before is what the merchant asks for: it may have been accepted otherwise than for
/// this merchant, with deadlines and contracts of its own.
///
/// # Errors
/// `PAYMENT_REQUIREMENTS_MISMATCH`, or 503 when that cannot be said.
pub(super) async fn check_replay(state: &App, message: &Message, payment_id: &PaymentId) -> Result<(), Error> {
    compare(message, &accepted_with(state, payment_id).await?)
}

fn compare(message: &Message, submitted: &Submitted) -> Result<(), Error> {
    message.requirement.difference(submitted).map_or(Ok(()), |member| {
        let message = format!("paymentRequirements.{member}: differs from the payment that exists");
        Err(Error::new(Code::PAYMENT_REQUIREMENTS_MISMATCH, message).about(&submitted.payment_id).exists())
    })
}

/// Whether a payment may begin here. From Tron it may not: the payload holds the payer's deposit, signed and ready to be
/// broadcast, and a merchant that never settles it could freeze the money until the refund window opens. So the payer
/// submits to the gateway first, and what a merchant has is a payment already (ADR 110).
///
/// # Errors
/// `PAYMENT_REQUIREMENTS_MISMATCH`.
pub(super) fn check_new(submission: &Submission<'_>) -> Result<(), Error> {
    match submission.order().terms.source.family() {
        Family::Evm | Family::Solana => Ok(()),
        Family::Tron => {
            let rule = "paymentRequest: there is no such payment. A buyer on Tron sends it to POST /v1/payments of the \
                        gateway before it hands it to a merchant, because whoever has it could broadcast its deposit";
            Err(Error::new(Code::PAYMENT_REQUIREMENTS_MISMATCH, rule))
        }
    }
}

/// What the message's identifier was bound to before by this payload.
///
/// # Errors
/// `PAYMENT_IDENTIFIER_CONFLICT` when the identifier belongs to another payload.
async fn binding(state: &App, message: &Message) -> Result<Option<Binding>, Refusal> {
    let Some(identifier) = &message.identifier else { return Ok(None) };
    let bound = state.services.identifiers.bound(identifier).await.map_err(|error| {
        tracing::warn!(%error, "a payment identifier cannot be looked up");
        Code::SERVICE_UNAVAILABLE
    })?;
    match bound {
        Some(bound) if bound.payload != message.fingerprint => Err(Code::PAYMENT_IDENTIFIER_CONFLICT.into()),
        bound => Ok(bound),
    }
}

/// The payment that a binding was made for. There is none when its append failed, and another one when somebody else's came
/// first under the same request id.
async fn payment_of(state: &App, binding: Binding) -> Result<Option<PaymentView>, Error> {
    match resolve::find(state, &binding.payment_id).await {
        Ok(view) => Ok(Some(view).filter(|view| view.terms_hash == binding.terms_hash)),
        Err(error) if *error.code == *Code::PAYMENT_NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}
