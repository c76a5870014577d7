//! Webhooks: what an owner of payments registers, and has delivered again.

use serde_json::{Value, json};

use app::{
    schema::PAYMENT_ID_PATTERN,
    webhooks::{REDELIVERED_MAX, URL_BYTES_MAX, event_types},
};

use super::{object, text};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![("WebhookRequest", registration()), ("WebhookRedeliveryRequest", redelivery())]
}

fn registration() -> Value {
    object(
        "An endpoint, and what it is told.",
        &["url"],
        json!({
            "url": {
                "type": "string",
                "format": "uri",
                "maxLength": URL_BYTES_MAX,
                "description": "Where it is called by POST: https at public addresses, without user, password and fragment.",
            },
            "payment_id": {
                "type": "string",
                "pattern": PAYMENT_ID_PATTERN,
                "description": "The one payment that it hears of. Left out, it hears of all payments of the session's owner.",
            },
            "events": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string", "enum": event_types()},
                "description": "What it hears of them. Left out, it hears of everything.",
            },
        }),
    )
}

fn redelivery() -> Value {
    let mut schema = object(
        "Which messages: one of `payment_id`, `message_ids`, `from` with `to`, and `dead`.",
        &[],
        json!({
            "payment_id": {
                "type": "string",
                "pattern": PAYMENT_ID_PATTERN,
                "description": "All about this payment.",
            },
            "message_ids": {
                "type": "array",
                "minItems": 1,
                "maxItems": REDELIVERED_MAX,
                "items": {"type": "string"},
                "description": "Those with these `webhook-id`s.",
            },
            "from": date_time("Those about what happened then or later."),
            "to": date_time("Those about what happened earlier."),
            "dead": {"type": "boolean", "const": true, "description": "The dead letters that are listed."},
        }),
    );
    schema["minProperties"] = json!(1);
    schema
}

fn date_time(description: &str) -> Value {
    let mut schema = text(description);
    schema["format"] = json!("date-time");
    schema
}
