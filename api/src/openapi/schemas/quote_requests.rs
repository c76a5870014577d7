//! Quote-requests and their award (spec 2.12 and 2.13, design: HTTP).

use serde_json::{Value, json};

use app::request::{award::QUOTE_ID_CHARS_MAX, order::request_id_pattern};

use super::{
    VERSION_PATTERN, matching, object,
    requests::{ORDER_REQUIRED, envelope_members, order_members, originator_auth, properties},
    schema,
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("QuoteRequest", quote_request()), ("AwardRequest", award_request())]
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
