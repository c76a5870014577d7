//! Payments as they are answered and read (spec 2.6 to 2.8 and 2.11).

use projections::PaymentStatus;
use serde_json::{Value, json};

use super::{
    ASSET_PATTERN, CHAIN_ID_PATTERN, PAYMENT_ID_PATTERN, TRANSACTION_HASH_PATTERN, described, free_form, matching,
    object, schema, text, time, whole,
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("PaymentResponse", payment_response()),
        ("PaymentStatusRead", status_read()),
        ("PaymentStatus", payment_status()),
        ("PaymentClaim", claim()),
        ("PaymentTransactions", transactions()),
        ("PaymentTransaction", transaction()),
        ("FulfillmentConfirmation", confirmation()),
    ]
}

/// The id of a payment.
pub(super) fn payment_id() -> Value {
    matching(PAYMENT_ID_PATTERN, "Tracking id of the payment.")
}

/// Whether a write found what was there (idempotency rule 4).
pub(super) fn idempotent_replay(what: &str) -> Value {
    let description = format!("`true`: {what} that was there before is returned. `false`: this request created it.");
    json!({"type": "boolean", "description": description})
}

/// A settler's signed quote.
pub(super) fn fulfillment_quote() -> Value {
    free_form(
        "The settler-signed quote, an opaque JSON-LD document: the preimage of the `quote_hash` that the escrow \
         commits to on chain. Hash-equivalent to the emitted quote, not necessarily the same bytes. `/docs/quote-hash` \
         says how to recompute the hash. Absent beside a `quote_id` when the stored quote cannot be read.",
    )
}

/// What a payment shows however it is read.
fn shared_members() -> Vec<(&'static str, Value)> {
    vec![
        ("payment_id", payment_id()),
        ("status", schema("PaymentStatus")),
        ("transactions", schema("PaymentTransactions")),
        ("quote_id", text("The awarded quote.")),
        ("fulfillment_quote", fulfillment_quote()),
        ("fulfillment_confirmation", schema("FulfillmentConfirmation")),
        ("error", described("PaymentFailure", "Only when `failed`.")),
    ]
}

fn payment_response() -> Value {
    let mut members = shared_members();
    members.insert(2, ("idempotent_replay", idempotent_replay("the payment")));
    object(
        "A payment as a submission is answered. `quote_id`, `fulfillment_quote` and `fulfillment_confirmation` are \
         there once it is `completed`.",
        &["payment_id", "status", "idempotent_replay"],
        super::requests::properties(members),
    )
}

fn status_read() -> Value {
    let mut members = shared_members();
    members.insert(3, ("updated_at", time("Last status update.")));
    members.push((
        "claims",
        json!({
            "type": "array",
            "items": schema("PaymentClaim"),
            "minItems": 1,
            "description": "What the token would not hand over when the escrow was released or refunded. It waits in the \
                            escrow. As of that moment: whether it was claimed since, `claimable(owner, token)` of the escrow \
                            tells. Absent when all was paid out.",
        }),
    ));
    members
        .push(("requested_count", whole("Settlers the auction was broadcast to. Absent means unknown, never zero.")));
    members.push((
        "decline_summary",
        json!({
            "type": "array",
            "items": schema("DeclineSummary"),
            "description": "Why the payment drew few or no quotes. Empty means none declined. Absent means unknown.",
        }),
    ));
    object(
        "A payment as it stands. `quote_id` and `fulfillment_quote` are there once a quote is awarded.",
        &["payment_id", "status", "updated_at"],
        super::requests::properties(members),
    )
}

fn payment_status() -> Value {
    let statuses = [PaymentStatus::Pending, PaymentStatus::Finalizing, PaymentStatus::Completed, PaymentStatus::Failed];
    json!({
        "type": "string",
        "enum": statuses.map(|status| status.as_str()),
        "description": "`pending`: accepted, nothing has reached the recipient. `finalizing`: the delivery is on chain \
                        and gathers confirmations; not final. `completed`: delivered, final. `failed`: did not \
                        complete, escrowed funds are returned; final.",
    })
}

fn claim() -> Value {
    let properties = json!({
        "owner": text("Account that is owed: the settler's payout account, or the payer."),
        "asset": matching(ASSET_PATTERN, "What is owed, CAIP-19: the payment's source asset."),
        "amount": text("How much, smallest unit, decimal."),
        "chain_id": matching(CHAIN_ID_PATTERN, "Chain of the escrow."),
        "escrow_contract": text("The escrow that holds it."),
        "call": text(
            "The call of the escrow that brings it to its owner, by anyone: `claimFor(owner, token)`. The owner itself takes it \
             to any account by `claim(token, to)`.",
        ),
    });
    let names: Vec<&str> = ["owner", "asset", "amount", "chain_id", "escrow_contract", "call"].into();
    object("Money of a payment that waits in its escrow for its owner.", &names, properties)
}

fn transactions() -> Value {
    object(
        "The transactions that are known, each as it becomes known.",
        &[],
        json!({
            "deposit": described("PaymentTransaction", "Commits the payer's funds on the source chain."),
            "fulfillment": described("PaymentTransaction", "Pays the recipient on the destination chain."),
        }),
    )
}

fn transaction() -> Value {
    object(
        "A transaction on a chain.",
        &["transaction_hash", "chain_id"],
        json!({
            "transaction_hash": matching(TRANSACTION_HASH_PATTERN, "Hex hashes carry the 0x prefix, on Tron too."),
            "chain_id": matching(CHAIN_ID_PATTERN, "CAIP-2 id."),
            "block_number": whole("Absent until mined; provisional until the payment is `completed`."),
        }),
    )
}

fn confirmation() -> Value {
    object(
        "The receipt of a completed payment.",
        &[
            "payment_id",
            "request_id",
            "source_chain_id",
            "destination_chain_id",
            "source_tx_hash",
            "destination_tx_hash",
        ],
        json!({
            "payment_id": payment_id(),
            "request_id": text("The payer's idempotency key."),
            "source_chain_id": matching(CHAIN_ID_PATTERN, "CAIP-2 id."),
            "destination_chain_id": matching(CHAIN_ID_PATTERN, "CAIP-2 id."),
            "source_tx_hash": matching(TRANSACTION_HASH_PATTERN, "The escrow reservation."),
            "destination_tx_hash": matching(TRANSACTION_HASH_PATTERN, "The delivery."),
            "fulfillment_timestamp": time("Time of the delivery's block."),
            "source_block_number": whole("Block of the reservation."),
            "destination_block_number": whole("Block of the delivery."),
        }),
    )
}
