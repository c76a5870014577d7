//! Mandates: what a merchant may ask for, signed once (ADR 159).

use serde_json::{Value, json};

use super::{
    matching, object,
    requests::{amount, order_members, properties},
    schema,
};

/// What of an order a mandate has. Amounts and deadlines are each payment's.
const OF_ORDER: [&str; 5] = ["version", "source", "destination", "fulfillment_verifier", "escrow_contract_address"];

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("PrepareMandateRequest", request()), ("MandateRequest", mandate())]
}

fn request() -> Value {
    let mut members: Vec<_> = order_members("").into_iter().filter(|(name, _)| OF_ORDER.contains(name)).collect();
    members.push(("mandate", schema("MandateRequest")));
    let description = "From which account what may be drawn, to whom it is delivered, and what binds the merchant.";
    object(description, &["version", "source", "destination", "mandate"], properties(members))
}

fn seconds(description: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": u32::MAX, "description": description})
}

fn mandate() -> Value {
    let members = vec![
        (
            "merchant",
            json!({
                "type": "string",
                "description": "Who signs for each payment: an account with a key on the source's chain.",
            }),
        ),
        (
            "amount",
            amount("The most that is drawn in a period, smallest unit of the source asset, with what settlers ask."),
        ),
        (
            "least",
            amount(
                "What is delivered at least where all of `amount` is drawn for it, and so in proportion, smallest unit of the \
             destination asset. Left out, the merchant alone says how much is delivered for what it draws.",
            ),
        ),
        (
            "begins",
            json!({
                "type": "integer",
                "minimum": 0,
                "description": "First second of the first period, UNIX; by default now.",
            }),
        ),
        ("period_seconds", seconds("How long a period is, in seconds.")),
        ("periods", seconds("How many there are.")),
        (
            "lock_seconds",
            seconds(
                "The most time from the deposit of a payment to its refund; by default a day and the refund delay of its chains.",
            ),
        ),
        ("salt", matching("^0x[0-9a-f]{64}$", "Drawn at random by the payer, when all else is settled.")),
    ];
    let required = ["merchant", "amount", "period_seconds", "periods", "salt"];
    object("What a payer allows its merchant to ask for.", &required, properties(members))
}
