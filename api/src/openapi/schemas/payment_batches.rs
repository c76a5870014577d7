//! Batches: many payments for one signature (ADR 158).

use serde_json::{Value, json};

use app::payment_batches::PAYMENTS_MAX;

use super::{
    object,
    requests::{order_members, properties},
    schema,
};

const REQUEST_ID: &str = "Idempotency key of the payment; it is signed, and no other payment of the batch has it.";

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("PreparePaymentBatchRequest", batch(false)),
        ("PaymentBatchRequest", batch(true)),
        ("PaymentOfBatch", payment()),
    ]
}

fn payment() -> Value {
    object(
        "A payment of a batch: a PaymentRequest without `sender_auth`. What is left out has to stand in the batch.",
        &["request_id"],
        properties(members()),
    )
}

/// The members of an order. The originator is the payer, so nobody proves anything.
fn members() -> Vec<(&'static str, Value)> {
    order_members(REQUEST_ID).into_iter().filter(|(name, _)| *name != "originator_auth").collect()
}

fn batch(is_signed: bool) -> Value {
    let mut members: Vec<_> = members().into_iter().filter(|(name, _)| *name != "request_id").collect();
    members.push((
        "reserve_deadline",
        json!({
            "type": "integer",
            "minimum": 1,
            "description": "Last second in which payments of the batch are deposited, UNIX; by default the earliest of their \
                            fulfillment deadlines. Past it what was drawn and is not in escrow goes back.",
        }),
    ));
    members.push((
        "payments",
        json!({
            "type": "array",
            "items": schema("PaymentOfBatch"),
            "minItems": 1,
            "maxItems": PAYMENTS_MAX,
            "description": "The payments. All have the same account and chain as their source.",
        }),
    ));
    let mut required = vec!["payments"];
    if is_signed {
        members.push(("sender_auth", schema("SenderAuth")));
        required.push("sender_auth");
    }
    let description = "Payments for one signature. What stands beside `payments` counts for each of them that does not state it itself.";
    object(description, &required, properties(members))
}
