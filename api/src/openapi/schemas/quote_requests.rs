//! Quote-requests and their award (spec 2.12 and 2.13, design: HTTP).

use serde_json::{Value, json};

use app::request::award::QUOTE_ID_CHARS_MAX;

use super::{
    object,
    requests::{ORDER_REQUIRED, amount, envelope_members, order_members, properties},
    schema, text,
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("QuoteRequest", quote_request()),
        ("AwardRequest", award_request()),
        ("DepositAddressRequest", deposit_address_request()),
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

fn deposit_address_request() -> Value {
    let mut members = vec![
        (
            "amount",
            amount(
                "What is going to be sent, smallest unit of the source asset: the most that a settler may be paid. Needed where the \
                 quote-request has no `max_source_amount`, which it is otherwise.",
            ),
        ),
        (
            "pay_by",
            json!({
                "type": "string",
                "format": "date-time",
                "description": "Up to when the money is waited for. Left out, a good part of the time up to `fulfillment_deadline` is \
                                left for quotes, deposit and delivery.",
            }),
        ),
    ];
    members.extend(envelope_members());
    object(
        "Asks for the deposit address of the batch. A batch that was opened in an envelope has it given to its holder, in an envelope.",
        &[],
        properties(members),
    )
}

fn award_request() -> Value {
    // What it may echo of the quote-request, `version`, `request_id` and `originator_auth` of its own.
    let mut members = order_members("Idempotency key of the payment.");
    members.extend([
        ("quote_request_id", text("The batch. May be left out, as everything that is echoed.")),
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
    ]);
    members.extend(envelope_members());
    object(
        "Awards one quote of the batch; corridor and deadlines are the batch's. What the quote-request said may be repeated, as \
         its response echoes it, and has to be the same. A batch that was opened in an envelope is awarded by its holder, in \
         an envelope.",
        &["version", "request_id", "quote_id", "sender_auth"],
        properties(members),
    )
}
