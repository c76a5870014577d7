//! A mandate of twelve periods, under which order-7 is asked for.

use serde_json::{Value, json};

use super::{DESTINATION_CHAIN, Examples, MESSAGE, PAYER, RECIPIENT, SOURCE_CHAIN, defaults, owned};

const MERCHANT: &str = "0x9965507d1a55bcc2695c58ba16fb37d819b0a4dc";
const ADDRESS: &str = "0x2279b7a0a67db372996a5fab50d91eaa73d2ebe6";
const CONTRACT: &str = "0x8a791620dd6260079bf849dc5567adc3f2fdc318";
const SALT: &str = "0x1d3b5a7c9e0f2b4d6f803f8a1c5e7d9b2f4a6c8e0d1b3a5c7e9f0b2d4f6a8c0e";

fn mandate() -> Value {
    json!({
        "merchant": MERCHANT,
        "amount": "25500000",
        "least": "25000000",
        "begins": 1_893_456_000_u64,
        "period_seconds": 2_592_000,
        "periods": 12,
        "lock_seconds": 90_000,
        "salt": SALT,
    })
}

/// A mandate that is to be signed.
pub(in crate::openapi) fn prepare_mandate_request() -> Examples {
    let request = json!({
        "version": "1.0",
        "source": owned(SOURCE_CHAIN, PAYER),
        "destination": [owned(DESTINATION_CHAIN, RECIPIENT)],
        "mandate": mandate(),
    });
    vec![("25.5 in each of twelve periods of thirty days", request)]
}

/// What to sign for it.
pub(in crate::openapi) fn prepared_mandate() -> Examples {
    let message = |primary: &str| {
        let typed = format!("{{\"primaryType\":\"{primary}\",…}}");
        json!({"message": MESSAGE, "message_prehash": typed, "payload": {}})
    };
    let call = |to: &str, data: &str| json!({"to": to, "data": data, "value": "0x0"});
    let prepared = json!({
        "message_scheme": "EVM_PERMIT2_MANDATE",
        "mandate": mandate(),
        "address": ADDRESS,
        "contract": CONTRACT,
        "permit": message("PermitSingle"),
        "allowance": call("0x000000000022d473030f116ddee9f6b43ac78ba3", "0x87517c45…"),
        "fulfillment_verifier": defaults::verifiers(),
        "cancel": {"call": call(CONTRACT, "0xdb0c1d24…"), "message": message("Cancellation")},
    });
    vec![("typed data, shortened", prepared)]
}
