//! Parameters of operations: in the path, in the query, in headers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use app::{
    own_payments::{PAGE_DEFAULT, PAGE_MAX, query::stages},
    schema::{CHAIN_ID_PATTERN, PAYMENT_ID_PATTERN, QUOTE_REQUEST_ID_PATTERN},
    settlers,
};
use proofs::contexts::BUNDLED;

use crate::{
    caller_secret::{SECRET_CHARS_MAX, SECRET_CHARS_MIN},
    position::POSITION_DIGITS_MAX,
};

pub(super) fn webhook_id() -> Value {
    json!({
        "name": "webhookId",
        "in": "path",
        "required": true,
        "description": "Id of a webhook of the session's owner.",
        "schema": {"type": "string", "pattern": "^whk_[a-z2-7]{26}$"},
    })
}

pub(super) fn payment_id() -> Value {
    json!({
        "name": "paymentId",
        "in": "path",
        "required": true,
        "description": "The payment's id.",
        "schema": {"type": "string", "pattern": PAYMENT_ID_PATTERN},
    })
}

pub(super) fn own_payments_parameters() -> Vec<Value> {
    let text = |name: &str, description: &str| query(name, false, json!({"type": "string"}), description);
    let named = |name: &str, names: Vec<&str>, description: &str| {
        query(name, false, json!({"type": "string", "enum": names}), description)
    };
    let time = |name: &str, description: &str| {
        query(name, false, json!({"type": "string", "format": "date-time"}), description)
    };
    let amount = |name: &str, description: &str| {
        query(name, false, json!({"type": "string", "pattern": "^[1-9][0-9]*$", "maxLength": 78}), description)
    };
    let statuses = vec!["pending", "finalizing", "completed", "failed"];
    let limit = json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX, "default": PAGE_DEFAULT});
    let chain = json!({"type": "string", "pattern": CHAIN_ID_PATTERN});
    vec![
        named("status", statuses, "Those with this status."),
        named("stage", stages().collect(), "Those that wait for this, or have `ended`."),
        query("chain_id", false, chain, "Those paid on this chain, or to be delivered on it."),
        text("settler", "Those awarded to the settler with this DID."),
        time("submitted_from", "Those submitted then or later."),
        time("submitted_until", "Those submitted earlier."),
        amount("amount_from", "Those of at least so much: what is in escrow, or may be at most, smallest unit."),
        amount("amount_to", "Those of at most so much."),
        query("overdue", false, json!({"type": "boolean"}), "Those with a step that is past its time, or the others."),
        query(
            "parked",
            false,
            json!({"type": "boolean"}),
            "Those that wait for an operator of the gateway, or the others.",
        ),
        query("limit", false, limit, "Most payments on a page."),
        text("cursor", "The `next_cursor` of an earlier page."),
    ]
}

pub(super) fn settler_did() -> Value {
    json!({
        "name": "did",
        "in": "path",
        "required": true,
        "description": "The settler's DID, percent-encoded: a `%` of its own is `%25`.",
        "schema": {"type": "string", "pattern": "^did:[a-z][a-z0-9]*:[a-zA-Z0-9._:%-]+$"},
    })
}

pub(super) fn settlers_parameters() -> Vec<Value> {
    let limit = json!({
        "type": "integer",
        "minimum": 1,
        "maximum": settlers::PAGE_MAX,
        "default": settlers::PAGE_DEFAULT,
    });
    vec![
        query("limit", false, limit, "Most settlers on a page."),
        query("cursor", false, json!({"type": "string"}), "The `next_cursor` of an earlier page."),
    ]
}

pub(super) fn quote_request_id() -> Value {
    json!({
        "name": "quoteRequestId",
        "in": "path",
        "required": true,
        "description": "The batch's id.",
        "schema": {"type": "string", "pattern": QUOTE_REQUEST_ID_PATTERN},
    })
}

pub(super) fn context_parameters() -> Vec<Value> {
    let parameter = |name: &str, index: usize, description: &str| {
        let parts: BTreeSet<&str> = BUNDLED.iter().filter_map(|context| context.path.split('/').nth(index)).collect();
        let pattern = format!("^({})$", parts.into_iter().collect::<Vec<_>>().join("|"));
        let schema = json!({"type": "string", "pattern": pattern});
        json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
    };
    vec![
        parameter("vocabulary", 0, "The vocabulary: `gateway` is that of quotes and requests, the others are W3C's."),
        parameter("version", 1, "Its version."),
    ]
}

pub(super) fn last_event_id() -> Value {
    json!({
        "name": "Last-Event-ID",
        "in": "header",
        "required": false,
        "description": "Id of the last event that the client has; the stream goes on behind it.",
        "schema": {"type": "string"},
        "example": "4.0",
    })
}

pub(super) fn position() -> Value {
    json!({
        "name": "X-Position",
        "in": "header",
        "required": false,
        "description": "The `X-Position` of an earlier answer about the same payment. The answer has no less than that.",
        "schema": {"type": "string", "pattern": format!("^[0-9]{{1,{POSITION_DIGITS_MAX}}}$")},
        "example": "3",
    })
}

pub(super) fn caller_secret() -> Value {
    let characters = format!("^[!-~]{{{SECRET_CHARS_MIN},{SECRET_CHARS_MAX}}}$");
    json!({
        "name": "Caller-Secret",
        "in": "header",
        "required": false,
        "description": "A secret of your own choice, best of 128 random bits or more, for callers that prove no DID. Its \
                        SHA-256 is part of what the batch's id is made of, so who does not know it cannot take your \
                        `request_id`. Send the same with every repetition. An award needs the payer's signature and not \
                        the secret.",
        "schema": {"type": "string", "pattern": characters},
    })
}

pub(super) fn prefer() -> Value {
    json!({
        "name": "Prefer",
        "in": "header",
        "required": false,
        "description": "`wait=N` shortens the hold to N seconds (RFC 7240); `wait=0` answers at once.",
        "schema": {"type": "string"},
        "example": "wait=10",
    })
}

pub(super) fn query(name: &str, required: bool, schema: Value, description: &str) -> Value {
    json!({"name": name, "in": "query", "required": required, "description": description, "schema": schema})
}
