//! Example bodies of x402: order-7 again, bought from a merchant.

use serde_json::{Value, json};

use app::error::{Code, docs_url};

use super::{
    BASE_URL, DELIVERY, DEPOSIT, DESTINATION_CHAIN, Examples, PAYER, RECIPIENT, SOURCE_CHAIN, TOKEN, and, completed,
    failed, order, payment_id, sender_auth, transaction,
};

const ESCROW: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
const PROXY: &str = "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512";
const RESERVER: &str = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266";
const RELEASER: &str = "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc";
const VERIFIER: &str = "https://verifier.example";

fn requirements() -> Value {
    json!({
        "scheme": "gw-escrow",
        "network": SOURCE_CHAIN,
        "asset": TOKEN,
        "payTo": RECIPIENT,
        "amount": "25500000",
        "maxTimeoutSeconds": 60,
        "extra": {"gw": {
            "destination": {"network": DESTINATION_CHAIN, "asset": TOKEN, "address": RECIPIENT},
            "fulfillmentAmount": "25000000",
            "escrow": ESCROW,
            "fulfillmentProxy": PROXY,
            "reserver": RESERVER,
            "releaser": RELEASER,
            "fulfillmentVerifierEndpoint": VERIFIER,
            "quoteDeadlineSeconds": 10,
            "fulfillmentDeadlineSeconds": 300,
        }},
    })
}

fn exact() -> Value {
    json!({
        "scheme": "exact",
        "network": SOURCE_CHAIN,
        "asset": TOKEN,
        "amount": "25250000",
        "payTo": "0x8f4b2f8bd0a1d7d1f7f0a1c9d9c2f5f0a7b3c6e1",
        "maxTimeoutSeconds": 60,
        "extra": {"name": "USD Coin", "version": "2", "gw": {
            "destination": {"network": DESTINATION_CHAIN, "asset": TOKEN, "address": RECIPIENT},
            "fulfillmentAmount": "25000000",
            "merchant": RECIPIENT,
            "escrow": ESCROW,
            "fulfillmentProxy": PROXY,
            "reserver": RESERVER,
            "releaser": RELEASER,
            "fulfillmentVerifierEndpoint": VERIFIER,
            "deliverySeconds": 60,
            "refundSeconds": 3600,
        }},
    })
}

/// Questions for an offer.
pub(crate) fn offer_request() -> Examples {
    let asked = json!({
        "network": SOURCE_CHAIN,
        "asset": TOKEN,
        "destination": {"network": DESTINATION_CHAIN, "asset": TOKEN, "address": RECIPIENT},
        "fulfillmentAmount": "25000000",
    });
    vec![("a price", asked)]
}

/// Offers.
pub(crate) fn offer() -> Examples {
    let requirement = exact();
    let route = json!({
        "scheme": "exact",
        "network": SOURCE_CHAIN,
        "payTo": requirement["payTo"],
        "price": {"asset": TOKEN, "amount": requirement["amount"], "extra": requirement["extra"]},
        "maxTimeoutSeconds": 60,
    });
    vec![("for stock clients", json!({"requirement": requirement, "route": route}))]
}

/// Bodies of both calls.
pub(crate) fn message() -> Examples {
    let message = json!({
        "x402Version": 2,
        "paymentPayload": {
            "x402Version": 2,
            "resource": {"url": "https://shop.example/article"},
            "accepted": requirements(),
            "payload": {"paymentRequest": and(order(), json!({"sender_auth": sender_auth()}))},
            "extensions": {"payment-identifier": {"info": {"required": true, "id": "pay_7d5d747be160e280"}}},
        },
        "paymentRequirements": requirements(),
    });
    let signed = json!({
        "signature": format!("0x{}1b", "ab".repeat(64)),
        "authorization": {
            "from": PAYER,
            "to": exact()["payTo"],
            "value": "25250000",
            "validAfter": "0",
            "validBefore": "1893456060",
            "nonce": format!("0x{}", "5c".repeat(32)),
        },
    });
    let stock = json!({
        "x402Version": 2,
        "paymentPayload": {"x402Version": 2, "accepted": exact(), "payload": signed},
        "paymentRequirements": exact(),
    });
    vec![("a purchase", message), ("by a stock client", stock)]
}

fn status_url() -> String {
    format!("{BASE_URL}/v1/payments/{}/status", payment_id())
}

fn refused(code: &Code) -> Value {
    json!({"gw": {
        "state": "rejected",
        "code": code.code,
        "retryClassification": code.retry_classification,
        "docsUrl": docs_url(BASE_URL, code.code),
    }})
}

/// Answers of verify.
pub(crate) fn verified() -> Examples {
    let valid = json!({
        "isValid": true,
        "payer": PAYER,
        "extensions": {"gw": {"paymentId": payment_id(), "idempotentReplay": false}},
    });
    let known = json!({
        "isValid": true,
        "payer": PAYER,
        "extensions": {"gw": {
            "paymentId": payment_id(),
            "state": "completed",
            "statusUrl": status_url(),
            "idempotentReplay": true,
            "transactions": completed()["transactions"],
            "fulfillmentConfirmation": completed()["fulfillment_confirmation"],
        }},
    });
    let poor = json!({
        "isValid": false,
        "invalidReason": "insufficient_funds",
        "invalidMessage": format!("paymentRequest.source: holds 7 of {SOURCE_CHAIN}/erc20:{TOKEN}, needs 25500000"),
        "payer": PAYER,
        "extensions": refused(Code::INSUFFICIENT_FUNDS),
    });
    vec![("valid", valid), ("settled before", known), ("without the funds", poor)]
}

/// Answers of settle.
pub(crate) fn settled() -> Examples {
    let delivered = json!({
        "success": true,
        "transaction": DELIVERY,
        "network": DESTINATION_CHAIN,
        "payer": PAYER,
        "extensions": {"gw": {
            "paymentId": payment_id(),
            "state": "completed",
            "statusUrl": status_url(),
            "idempotentReplay": false,
            "transactions": completed()["transactions"],
            "fulfillmentConfirmation": completed()["fulfillment_confirmation"],
        }},
        "fulfillmentConfirmation": completed()["fulfillment_confirmation"],
    });
    let unsuccessful = |code: &Code, state: &str, more: Value| {
        let gw = json!({
            "paymentId": payment_id(),
            "state": state,
            "statusUrl": status_url(),
            "idempotentReplay": false,
            "code": code.code,
            "retryClassification": code.retry_classification,
            "docsUrl": docs_url(BASE_URL, code.code),
        });
        json!({
            "success": false,
            "errorReason": code.code.to_ascii_lowercase(),
            "errorMessage": code.message,
            "transaction": "",
            "network": DESTINATION_CHAIN,
            "payer": PAYER,
            "extensions": {"gw": and(gw, more)},
        })
    };
    let deposit = transaction(DEPOSIT, SOURCE_CHAIN, 1_024);
    let deposit = json!({"heldSeconds": 75, "transactions": {"deposit": deposit}});
    let pending = unsuccessful(Code::SETTLEMENT_PENDING, "pending", deposit);
    let failure = json!({"error": failed(BASE_URL)["error"], "transactions": {}});
    let failed = unsuccessful(Code::NO_QUOTES_RECEIVED, "failed", failure);
    let refused = json!({
        "success": false,
        "errorReason": "payment_requirements_mismatch",
        "errorMessage": "paymentRequest.fulfillment_amount: must be 25000000",
        "transaction": "",
        "network": DESTINATION_CHAIN,
        "payer": PAYER,
        "extensions": refused(Code::PAYMENT_REQUIREMENTS_MISMATCH),
    });
    vec![("delivered", delivered), ("pending", pending), ("failed", failed), ("refused", refused)]
}

/// What the facilitator takes.
pub(crate) fn supported() -> Examples {
    let asset = |chain: &str| {
        json!({
            "asset": TOKEN,
            "assetIdentifier": format!("{chain}/erc20:{TOKEN}"),
            "symbol": "USDC",
            "decimals": 6,
        })
    };
    let supported = json!({
        "kinds": [{
            "x402Version": 2,
            "scheme": "gw-escrow",
            "network": SOURCE_CHAIN,
            "extra": {"gw": {
                "escrow": ESCROW,
                "reserver": RESERVER,
                "releaser": RELEASER,
                "fulfillmentVerifierEndpoint": VERIFIER,
                "permit2": "0x000000000022d473030f116ddee9f6b43ac78ba3",
                "messageSchemes": ["EVM_PERMIT2_ESCROW", "EVM_EIP3009"],
                "refundDelaySeconds": 3_600,
                "maxTimeoutSeconds": 75,
                "gateway": BASE_URL,
                "assets": [asset(SOURCE_CHAIN)],
                "destinations": [{
                    "network": DESTINATION_CHAIN,
                    "fulfillmentProxy": PROXY,
                    "refundDelaySeconds": 3_600,
                    "assets": [asset(DESTINATION_CHAIN)],
                }],
            }},
        }],
        "extensions": ["payment-identifier"],
        "signers": {SOURCE_CHAIN: [RESERVER, RELEASER]},
    });
    vec![("two chains", supported)]
}
