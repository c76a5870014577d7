//! Verifying a payment for a merchant: every check of a settle, and nothing is accepted.

use events::PaymentId;
use net::callers::Caller;
use projections::PaymentView;

use super::{
    Refusal,
    checks::{Payment, check, check_new, check_replay, existing},
    message::Call,
    told::was_told,
};
use crate::App;

/// What verifying a payment comes to that is not refused.
pub enum Verified {
    /// It would be settled under this id, and is new.
    New(PaymentId),
    /// It was settled before.
    Known(Box<PaymentView>),
    /// It was, by a stock client, and the merchant was told so.
    Told(Box<PaymentView>),
}

/// Judges the payment of a call.
///
/// # Errors
/// What a settle would be refused with; a pause refuses nothing here.
pub async fn verify(state: &App, caller: Caller, call: Call) -> Result<Verified, Refusal> {
    let verified = match attempt(state, &caller, &call).await {
        Err(refusal) => Verified::Known(existing(state, &caller, &call, refusal).await?),
        Ok(verified) => verified,
    };
    Ok(match verified {
        Verified::Known(view)
            if call.message.is_exact() && view.is_merchant_paid() && was_told(state, &view.payment_id).await? =>
        {
            Verified::Told(view)
        }
        verified => verified,
    })
}

async fn attempt(state: &App, caller: &Caller, call: &Call) -> Result<Verified, Refusal> {
    let submission = match check(state, caller, call).await? {
        Payment::Due(submission) => submission,
        Payment::Known(view) => return Ok(Verified::Known(view)),
    };
    Ok(match submission.rehearse(state).await? {
        Some(view) => {
            check_replay(state, &call.message, &view.payment_id).await?;
            Verified::Known(Box::new(view))
        }
        None => {
            check_new(&submission)?;
            Verified::New(submission.payment_id)
        }
    })
}
