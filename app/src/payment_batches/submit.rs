//! Submitting a batch: each of its payments is accepted, or refused, by itself, as if it had come alone.
//!
//! Nothing keeps the batch together but what the payer signed. A call that is cut off half-way has accepted some of its payments; the same
//! call again accepts the others and finds those.

use std::sync::Arc;

use futures::{StreamExt, stream::FuturesOrdered};
use serde_json::{Map, Value, json};

use events::PaymentId;
use net::callers::{Caller, Kind, price};
use projections::PaymentView;

use super::{Batch, Member, PAYMENTS_MAX, whole};
use crate::{
    App,
    admission::write_permits::Permit,
    authorization::{MessageScheme, SignedMessage},
    error::{Code, Error},
    request::{
        body::JsonBody,
        fields::{Faults, Object},
        sender_auth::SenderAuth,
    },
    submit,
};

/// Payments of one batch that are accepted at a time.
const AT_ONCE: usize = 16;

/// What became of one payment of a batch.
pub struct Submitted {
    /// Its id.
    pub payment_id: PaymentId,
    /// The payment and whether it was accepted before, or why it was refused.
    pub outcome: Result<(PaymentView, bool), Error>,
}

/// Accepts the payments of a batch, or finds those that were accepted before.
///
/// # Errors
/// What is wrong with the batch, with what was signed for it, or with its first payment; then nothing of it was accepted by this call, unless
/// it is not known what became of the first. What is refused of another payment is in its place.
pub async fn accept(
    state: &App,
    correlation: &str,
    caller: Caller,
    body: JsonBody,
    permit: Permit,
) -> Result<Vec<Submitted>, Error> {
    // The first is paid for as every write is, the others before anything is read of them.
    let count = body.members.get("payments").and_then(Value::as_array).map_or(0, Vec::len).min(PAYMENTS_MAX);
    let others = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
    caller.spend(Kind::Writes, price::WRITE.saturating_mul(others))?;
    let batch = Batch::read(&body, state)?;
    let signed = signed(&body)?;
    let prepared = batch.prepared(state).await?;
    if !signed.message.eq_ignore_ascii_case(&prepared.message.message) {
        let rule = format!(
            "sender_auth.signed_messages[0]: message must be {}, which /v1/payments/batches/prepare tells, not {}",
            prepared.message.message, signed.message
        );
        return Err(Error::new(Code::INVALID_SENDER_AUTH, rule));
    }
    let permit = Arc::new(permit);
    let shared = &batch.shared;
    let accepted = |member: Member<'_>, payload: Map<String, Value>| {
        let (caller, permit, signed) = (&caller, &permit, &signed);
        let (payment_id, body) = (member.payment_id, with_auth(whole(shared, member.own), signed, payload));
        async move {
            let outcome = match body {
                Ok(body) => Box::pin(submit::accept_under(state, correlation, caller, &body, permit)).await,
                Err(error) => Err(error),
            };
            Submitted { payment_id, outcome }
        }
    };
    let payloads = prepared.members.into_iter().map(|(payload, _)| payload);
    let mut members = batch.payments.into_iter().zip(payloads);
    let Some((first, payload)) = members.next() else { return Ok(Vec::new()) };
    let first = accepted(first, payload).await;
    // All of them are signed for as one, so what is wrong with that shows here. Whatever it is: where the first is not there, none of them is.
    let mut submitted = match first {
        Submitted { payment_id, outcome: Err(error) } => {
            let error = if *error.code == *Code::INVALID_SENDER_AUTH { error } else { error.within("payments[0]") };
            return Err(error.about(&payment_id));
        }
        accepted => vec![accepted],
    };
    let mut under_way = FuturesOrdered::new();
    for (member, payload) in members {
        if under_way.len() >= AT_ONCE {
            submitted.extend(under_way.next().await);
        }
        under_way.push_back(accepted(member, payload));
    }
    submitted.extend(under_way.collect::<Vec<_>>().await);
    Ok(submitted)
}

/// What the payer signed.
fn signed(body: &JsonBody) -> Result<SignedMessage, Error> {
    let mut faults = Faults::default();
    let auth = SenderAuth::read(&Object::root(&body.members), &mut faults);
    if let Some(auth) = &auth {
        let scheme = MessageScheme::EvmPermit2Batch;
        if auth.message_scheme != scheme {
            faults.invalid("sender_auth.message_scheme", format!("must be {} for a batch", scheme.name()));
        }
        if auth.signed_messages.len() != 1 {
            faults.invalid(
                "sender_auth.signed_messages",
                "must have one message, which is for all payments of the batch",
            );
        }
    }
    faults.or(auth.and_then(|auth| auth.signed_messages.into_iter().next()))
}

/// The body of one payment, which shows where it is in the batch. Typed data is the same for all of them, and comes to the message that
/// is there.
fn with_auth(
    mut body: Map<String, Value>,
    signed: &SignedMessage,
    payload: Map<String, Value>,
) -> Result<JsonBody, Error> {
    let auth = json!({
        "message_scheme": MessageScheme::EvmPermit2Batch.name(),
        "signed_messages": [{"message": signed.message, "signature": signed.signature, "payload": payload}],
    });
    body.insert("sender_auth".to_owned(), auth);
    JsonBody::parse(Value::Object(body).to_string().into_bytes())
}
