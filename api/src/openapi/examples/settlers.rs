//! Example bodies of settlers' records: the settler that delivers order-7, and one that is passed over.

use serde_json::{Value, json};

use super::{Examples, SETTLER};

/// The record of the settler of order-7.
fn record() -> Value {
    json!({
        "settler": SETTLER,
        "asked": 1204,
        "offered": 1187,
        "declined": 12,
        "won": 431,
        "acknowledged": 430,
        "refused": 1,
        "unanswered": 0,
        "delivered": 429,
        "late": 3,
        "missed": 0,
        "median_delivery_seconds": 6,
        "last_won_at": "2030-01-01T00:00:01.730Z",
    })
}

/// A record.
pub(in crate::openapi) fn settler() -> Examples {
    vec![("delivers", record())]
}

/// A page of records.
pub(in crate::openapi) fn settlers() -> Examples {
    let passed_over = json!({
        "settler": "did:web:settler.example",
        "asked": 310,
        "offered": 310,
        "declined": 0,
        "won": 9,
        "acknowledged": 5,
        "refused": 0,
        "unanswered": 4,
        "delivered": 5,
        "late": 1,
        "missed": 0,
        "median_delivery_seconds": 19,
        "last_won_at": "2029-12-31T23:58:40.215Z",
        "passed_over_until": "2030-01-01T00:00:41.215Z",
    });
    vec![("page", json!({"settlers": [record(), passed_over], "next_cursor": "ZGlkOndlYjpzZXR0bGVyLmV4YW1wbGU"}))]
}
