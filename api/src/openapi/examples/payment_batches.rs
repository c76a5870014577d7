//! A batch of two payments, of which one is order-7.

use serde_json::{Map, Value, json};

use events::PaymentId;

use super::{DESTINATION_CHAIN, Examples, MESSAGE, PAYER, RECIPIENT, REQUEST_ID, and, order, owned, sender_auth};

fn batch() -> Value {
    let Value::Object(mut shared) = order() else { return Value::Null };
    let own = ["request_id", "destination", "fulfillment_amount", "max_source_amount"];
    let one: Map<_, _> = own.iter().filter_map(|name| shared.remove_entry(*name)).collect();
    let other = json!({
        "request_id": "order-8",
        "destination": [owned(DESTINATION_CHAIN, RECIPIENT)],
        "fulfillment_amount": "10000000",
        "max_source_amount": "10200000",
    });
    shared.insert("payments".to_owned(), json!([one, other]));
    Value::Object(shared)
}

/// A batch without what authorizes it.
pub(in crate::openapi) fn prepare_payment_batch_request() -> Examples {
    vec![("two payments", batch())]
}

/// What to sign for a batch.
pub(in crate::openapi) fn prepared_payment_batch() -> Examples {
    let ids = [REQUEST_ID, "order-8"].map(|id| PaymentId::derive(&format!("eip155:{PAYER}"), id));
    let prepared = json!({
        "message_scheme": "EVM_PERMIT2_BATCH",
        "signed_messages": [{
            "message": MESSAGE,
            "message_prehash": "{\"primaryType\":\"PermitBatchWitnessTransferFrom\",…}",
            "payload": {},
        }],
        "reserve_deadline": 1_893_456_300,
        "payments": ids.map(|id| json!({"payment_id": id})),
    });
    vec![("typed data, shortened", prepared)]
}

/// A batch.
pub(in crate::openapi) fn payment_batch_request() -> Examples {
    let auth = and(sender_auth(), json!({"message_scheme": "EVM_PERMIT2_BATCH"}));
    vec![("two payments", and(batch(), json!({"reserve_deadline": 1_893_456_300, "sender_auth": auth})))]
}

/// What became of a batch.
pub(in crate::openapi) fn payment_batch_response() -> Examples {
    let ids = [REQUEST_ID, "order-8"].map(|id| PaymentId::derive(&format!("eip155:{PAYER}"), id));
    let payments = ids.map(|id| {
        let payment = json!({"payment_id": id, "status": "pending", "idempotent_replay": false});
        json!({"payment_id": id, "payment": payment})
    });
    vec![("both are accepted", json!({"payments": payments}))]
}
