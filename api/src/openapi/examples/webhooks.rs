//! Example bodies of webhooks: a shop that hears of order-7.

use serde_json::{Value, json};

use super::{Examples, PAYER, payment_id};

const ID: &str = "whk_fq2vr6ga5y3kdkqjspkz3uvsxm";
const URL: &str = "https://shop.example/hooks";

fn message_id() -> String {
    let payment_id = payment_id();
    format!("msg_{}_5_k2v6ga5y3k", payment_id.as_str().trim_start_matches("pay_"))
}

fn key() -> Value {
    json!({
        "public_key": "whpk_iojjj8HbyKhxIYxyqZ/5TIhDXcSWo4tRJ+g+cMzJz0g=",
        "did": "did:key:z6MkoLhcANmmp5V7fUyqcvB5JB5LUuMvHPHEwLxdXAwnpk7X",
    })
}

fn summary() -> Value {
    json!({
        "id": ID,
        "url": URL,
        "owner": format!("eip155:{PAYER}"),
        "events": ["payment.completed", "payment.failed"],
        "registered_at": "2030-01-01T00:00:00Z",
    })
}

fn with(mut body: Value, members: Value) -> Value {
    if let (Value::Object(body), Value::Object(members)) = (&mut body, members) {
        body.extend(members);
    }
    body
}

fn of_owner() -> Value {
    with(summary(), json!({"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=", "keys": [key()]}))
}

/// What is registered.
pub(in crate::openapi) fn request() -> Examples {
    let all = json!({"url": URL, "events": ["payment.completed", "payment.failed"]});
    vec![("all payments", all), ("one payment", json!({"url": URL, "payment_id": payment_id()}))]
}

/// What was registered.
pub(in crate::openapi) fn registered() -> Examples {
    vec![("registered", of_owner())]
}

/// The owner's webhooks.
pub(in crate::openapi) fn list() -> Examples {
    vec![("one", json!({"webhooks": [summary()], "keys": [key()]}))]
}

/// The keys.
pub(in crate::openapi) fn keys() -> Examples {
    vec![("one", json!({"keys": [key()]}))]
}

/// How a webhook stands.
pub(in crate::openapi) fn webhook() -> Examples {
    let error = "answered 503 Service Unavailable";
    let letter = json!({
        "message_id": message_id(),
        "payment_id": payment_id(),
        "type": "payment.completed",
        "occurred_at": "2030-01-01T00:00:09Z",
        "given_up_at": "2030-01-03T23:12:40Z",
        "attempts": 13,
        "error": error,
    });
    let deliveries = json!({
        "delivered": 41,
        "waiting": 3,
        "more_waiting": false,
        "last_success_at": "2030-01-01T00:00:04Z",
        "last_error": {"at": "2030-01-03T23:12:40Z", "error": error},
        "failing_since": "2030-01-01T00:00:10Z",
        "dead_letters": [letter],
        "more_dead_letters": 0,
    });
    vec![("failing", with(of_owner(), json!({"deliveries": deliveries})))]
}

/// A webhook that was deleted.
pub(in crate::openapi) fn deleted() -> Examples {
    vec![("deleted", json!({"id": ID}))]
}

/// What is to be delivered again.
pub(in crate::openapi) fn redelivery() -> Examples {
    vec![
        ("a payment", json!({"payment_id": payment_id()})),
        ("messages", json!({"message_ids": [message_id()]})),
        ("a time", json!({"from": "2030-01-01T00:00:00Z", "to": "2030-01-02T00:00:00Z"})),
        ("dead letters", json!({"dead": true})),
    ]
}

/// What is delivered again.
pub(in crate::openapi) fn redelivered() -> Examples {
    vec![("one", json!({"message_ids": [message_id()]}))]
}
