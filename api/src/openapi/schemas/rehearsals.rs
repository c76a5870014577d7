//! Rehearsals: what a payer asks to have prepared for its signature (design: HTTP).

use serde_json::{Value, json};

use app::{authorization::MessageScheme, request::order::request_id_pattern, schema::QUOTE_REQUEST_ID_PATTERN};

use super::{
    DID_PATTERN, VERSION_PATTERN, free_form, matching, object,
    requests::{ORDER_REQUIRED, envelope_members, order_members, originator_auth, properties},
    text,
};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("PrepareRequest", prepare_request()), ("PrepareAwardRequest", prepare_award_request())]
}

fn scheme(description: &str) -> Value {
    json!({"type": "string", "enum": MessageScheme::ALL.map(MessageScheme::name), "description": description})
}

fn prepare_request() -> Value {
    let mut members = order_members("Idempotency key of the payment that is going to be submitted; it is signed.");
    members.push((
        "message_scheme",
        scheme("Which scheme of the source's chain to sign with; the one that binds most when left out."),
    ));
    members.push(("payload", free_form("Numbers that are the payer's to choose, as in a SignedMessage.")));
    members.push(("originator", originator()));
    members.extend(envelope_members());
    let mut schema = object("A PaymentRequest without `sender_auth`.", &ORDER_REQUIRED, properties(members));
    // With either it is read as a PrepareAwardRequest, also where it repeats the order.
    schema["not"] = json!({"anyOf": [{"required": ["quote_request_id"]}, {"required": ["quote_id"]}]});
    schema
}

fn prepare_award_request() -> Value {
    let request_id = "Idempotency key of the payment that the award is going to make; it is signed.";
    let mut members = vec![
        ("version", matching(VERSION_PATTERN, "As in a PaymentRequest.")),
        ("request_id", matching(&request_id_pattern(), request_id)),
        ("quote_request_id", matching(QUOTE_REQUEST_ID_PATTERN, "The batch.")),
        ("quote_id", text("The quote that is taken.")),
        ("message_scheme", scheme("As in a PrepareRequest.")),
        ("payload", free_form("Numbers that are the payer's to choose, as in a SignedMessage.")),
        ("originator", originator()),
        ("originator_auth", originator_auth()),
    ];
    members.extend(envelope_members());
    object(
        "An award without `sender_auth`: corridor and deadlines are the batch's, and the quote's hash is signed.",
        &["version", "request_id", "quote_request_id", "quote_id"],
        properties(members),
    )
}

fn originator() -> Value {
    json!({
        "type": "string",
        "pattern": DID_PATTERN,
        "description": "DID that is going to prove the submission. The payment id is made of it, and so what is signed. \
                        Without it: the DID of `proof`, else the batch's originator, else the source account. \
                        Where the source is on Tron, this request has to prove it, too.",
    })
}
