//! Quote-requests and their award (spec 2.12 and 2.13, design: HTTP).

use serde_json::{Value, json};

use super::{
    QUOTE_REQUEST_ID_PATTERN, VERSION_PATTERN, matching, object,
    payments::{fulfillment_quote, idempotent_replay},
    request_id_pattern,
    requests::{ORDER_REQUIRED, envelope_members, order_members, originator_auth, properties},
    schema, text, time, whole,
};
use app::request::award::QUOTE_ID_CHARS_MAX;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("QuoteRequest", quote_request()),
        ("QuoteRequestResponse", response()),
        ("QuoteRequestRead", read()),
        ("CollectedQuote", collected_quote()),
        ("AwardRequest", award_request()),
    ]
}

fn quote_request() -> Value {
    let mut members = order_members("Idempotency key of the quote-request; independent of the award's.");
    members.extend(envelope_members());
    object(
        "What quotes are asked for: a PaymentRequest without `sender_auth`, which the award brings.",
        &ORDER_REQUIRED,
        properties(members),
    )
}

/// The members of a batch, without `idempotent_replay`.
fn batch_members(statuses: &[&str], status: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("quote_request_id", matching(QUOTE_REQUEST_ID_PATTERN, "Id of the batch.")),
        ("status", json!({"type": "string", "enum": statuses, "description": status})),
        ("source", schema("OwnedAsset")),
        ("destination", json!({"type": "array", "items": schema("OwnedAsset")})),
        ("fulfillment_amount", text("As it was asked for.")),
        ("max_source_amount", text("As it was asked for.")),
        ("quote_deadline", time("The original batch's, on a replay too.")),
        ("fulfillment_deadline", time("The original batch's, on a replay too.")),
        (
            "quotes",
            json!({
                "type": "array",
                "items": schema("CollectedQuote"),
                "description": "There once collection is complete; empty when no settler offered a usable quote.",
            }),
        ),
        ("requested_count", whole("Settlers asked. Absent means unknown, never zero.")),
        (
            "decline_summary",
            json!({
                "type": "array",
                "items": schema("DeclineSummary"),
                "description": "Why settlers declined; provisional while `collecting`. Absent means unknown.",
            }),
        ),
    ]
}

const BATCH_REQUIRED: [&str; 7] = [
    "quote_request_id",
    "status",
    "source",
    "destination",
    "fulfillment_amount",
    "quote_deadline",
    "fulfillment_deadline",
];

fn response() -> Value {
    let status = "`ready`: collection is complete and `quotes` is there. `collecting`: read the batch later. That it \
                  was awarded or has expired is for that read to say.";
    let mut members = batch_members(&["collecting", "ready"], status);
    members.insert(2, ("idempotent_replay", idempotent_replay("the batch")));
    object(
        "The batch, with the corridor that the award is built from.",
        &[&BATCH_REQUIRED[..], &["idempotent_replay"]].concat(),
        properties(members),
    )
}

fn read() -> Value {
    let status = "`collecting`, `ready` with `quotes`, `awarded` once one of them was, or `expired` when the quotes \
                  have lapsed.";
    let members = batch_members(&["collecting", "ready", "awarded", "expired"], status);
    object("The batch as it stands.", &BATCH_REQUIRED, properties(members))
}

fn collected_quote() -> Value {
    object(
        "A quote that may be awarded.",
        &["quote_id", "fulfillment_quote"],
        json!({"quote_id": text("What the award names."), "fulfillment_quote": fulfillment_quote()}),
    )
}

fn award_request() -> Value {
    let mut members = vec![
        ("version", matching(VERSION_PATTERN, "As in a PaymentRequest.")),
        ("request_id", matching(&request_id_pattern(), "Idempotency key of the payment.")),
        (
            "quote_id",
            json!({
                "type": "string",
                "minLength": 1,
                "maxLength": QUOTE_ID_CHARS_MAX,
                "description": "The quote, as the batch shows it.",
            }),
        ),
        ("sender_auth", schema("SenderAuth")),
        ("originator_auth", originator_auth()),
    ];
    members.extend(envelope_members());
    object(
        "Awards one quote of the batch; corridor and deadlines are the batch's. A batch that was opened in an envelope is \
         awarded by its holder, in an envelope.",
        &["version", "request_id", "quote_id", "sender_auth"],
        properties(members),
    )
}
