//! Preparing a batch: what its payer has to sign, once for all of its payments.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Map;

use events::PaymentId;

use super::Batch;
use crate::{
    App,
    authorization::MessageScheme,
    error::Error,
    funds::{Approval, Draw, FirstSteps, Spend, Wrap},
    prepare::MessageBody,
    request::{body::JsonBody, horizons},
};

/// What to sign for a batch. With a `signature` in the message it is the `sender_auth` of the submission of the same payments.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PreparedPaymentBatch {
    /// The scheme the message is for.
    #[schemars(schema_with = "MessageScheme::schema")]
    message_scheme: &'static str,
    /// The message: EIP-712 typed data of Permit2's batch transfer, with the root of the payments as witness.
    #[schemars(length(min = 1, max = 1))]
    signed_messages: Vec<MessageBody>,
    /// The last second in which payments of the batch are deposited, UNIX. The submission repeats it as `reserve_deadline`.
    reserve_deadline: u64,
    /// The payments, in the order of the request.
    #[schemars(length(min = 1))]
    payments: Vec<PreparedMember>,
    /// What the payer has to send to the chain first: for each token of which it holds too little, and the coin, what wraps it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wraps: Vec<Wrap>,
    /// The same for each token of which Permit2 may draw too little.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approvals: Vec<Approval>,
}

/// One payment of a batch.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PreparedBatchPayment")]
struct PreparedMember {
    /// Tracking id of the payment.
    payment_id: PaymentId,
}

/// Makes the message. Nothing is kept.
///
/// # Errors
/// What the submission would be refused with, but for its signature.
pub async fn prepare(state: &App, body: &JsonBody) -> Result<PreparedPaymentBatch, Error> {
    let batch = Batch::read(body, state)?;
    let now = state.services.clock.now();
    for (index, member) in batch.payments.iter().enumerate() {
        let checked = member.order.check_deadlines(now, state.deadlines);
        checked.map_err(|error| error.within(&format!("payments[{index}]")))?;
    }
    let prepared = batch.prepared(state).await?;
    for (index, (member, (_, plan))) in batch.payments.iter().zip(&prepared.members).enumerate() {
        let checked = horizons::check_plan(plan, member.order.quote_deadline, state.deadlines);
        checked.map_err(|error| Error::from(error).within(&format!("payments[{index}]")))?;
    }
    let first = prepared.members.first().map(|(_, plan)| plan);
    // A batch that was accepted has its funds committed, and may be drawn.
    let known = match batch.payments.first() {
        Some(member) => state.services.payments.view(&member.payment_id).await.ok().flatten().is_some(),
        None => false,
    };
    let (mut wraps, mut approvals) = (Vec::new(), Vec::new());
    if let Some(escrow) = first.filter(|_| !known) {
        for (source, amount) in &prepared.drawn {
            let draw = Draw::Permit2 { nonce: prepared.nonce, prepares: false };
            let spend = Spend { source, amount: *amount, draw, escrow };
            let FirstSteps { wrap, approval } = state.funds.unsigned(&spend).await?;
            wraps.extend(wrap);
            approvals.extend(approval);
        }
    }
    let payments = batch.payments.into_iter().map(|member| PreparedMember { payment_id: member.payment_id });
    let reserve_deadline = first.map_or(0, |plan| plan.reserve_deadline);
    let mut message = prepared.message;
    message.payload = Map::new();
    Ok(PreparedPaymentBatch {
        message_scheme: MessageScheme::EvmPermit2Batch.name(),
        signed_messages: vec![message.into()],
        reserve_deadline,
        payments: payments.collect(),
        wraps,
        approvals,
    })
}
