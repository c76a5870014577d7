//! x402 (spec 2.14).

use axum::http::StatusCode;
use events::failure::RetryClassification;
use serde_json::{Value, json};

use super::{
    CHAIN_ID_PATTERN, CODE_PATTERN, PAYMENT_ID_PATTERN, described, free_form, matching, object, schema, text, whole,
};
use crate::x402::{IDENTIFIER_CHARS_MAX, IDENTIFIER_CHARS_MIN, PAYMENT_IDENTIFIER, SCHEME, VERSION};
use app::error::Code;

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("X402Message", message()),
        ("X402PaymentRequirements", requirements()),
        ("X402VerifyResponse", verify_response()),
        ("X402SettleResponse", settle_response()),
        ("X402Extension", extension()),
        ("X402Supported", supported()),
        ("X402Asset", asset()),
    ]
}

fn version() -> Value {
    json!({"type": "integer", "const": VERSION, "description": "Version of x402."})
}

fn message() -> Value {
    let identifier = json!({
        "type": "string",
        "pattern": format!("^[A-Za-z0-9_-]{{{IDENTIFIER_CHARS_MIN},{IDENTIFIER_CHARS_MAX}}}$"),
        "description": "Belongs for ever to the payload it was first settled with. Has to be there where `required` is true.",
    });
    let info = json!({
        "required": {"type": "boolean", "description": "Whether the merchant requires an identifier."},
        "id": identifier,
    });
    let needed = json!({"if": {"properties": {"required": {"const": true}}}, "then": {"required": ["id"]}});
    let mut info = object("What the payer says.", &["required"], info);
    if let (Some(info), Value::Object(needed)) = (info.as_object_mut(), needed) {
        info.extend(needed);
    }
    let extensions = json!({
        PAYMENT_IDENTIFIER: object("The extension `payment-identifier`.", &["info"], json!({
            "info": info,
            "schema": free_form("As the merchant stated it; not read."),
        })),
    });
    let payload = json!({
        "x402Version": version(),
        "resource": free_form("What is paid for; not read."),
        "accepted": free_form("The requirement as the payer accepted it: equal to `paymentRequirements`, and `extra` may hold more."),
        "payload": object("What the payer signed.", &["paymentRequest"], json!({
            "paymentRequest": described("PaymentRequest", "As `POST /v1/payments` takes it, an identity's `proof` included."),
        })),
        "extensions": object("Extensions of x402; others than this one are not read.", &[], extensions),
    });
    object(
        "A payment, and what the merchant asked for.",
        &["x402Version", "paymentPayload", "paymentRequirements"],
        json!({
            "x402Version": version(),
            "paymentPayload": object("The payer's part.", &["x402Version", "accepted", "payload"], payload),
            "paymentRequirements": schema("X402PaymentRequirements"),
        }),
    )
}

fn seconds(description: &str) -> Value {
    whole(description)
}

fn requirements() -> Value {
    let destination = json!({
        "network": text("CAIP-2 id of the chain the merchant is paid on."),
        "asset": text("What it is paid in: the asset's bare reference on `network`, or its CAIP-19 id."),
        "address": text("The merchant's account."),
    });
    let gw = json!({
        "destination": object("Where the merchant is paid.", &["network", "asset", "address"], destination),
        "fulfillmentAmount": text("What the merchant receives, smallest unit."),
        "escrow": text("Escrow contract on the source chain. Empty or absent: the default, as with every member below."),
        "fulfillmentProxy": text("Proxy on the destination's chain."),
        "reserver": text("Account that signs reservations."),
        "releaser": text("Account of the fulfillment verifier."),
        "fulfillmentVerifierEndpoint": text("Origin of the fulfillment verifier."),
        "quoteDeadlineSeconds": seconds("The request's `quote_deadline` may be so far away."),
        "fulfillmentDeadlineSeconds": seconds("The request's `fulfillment_deadline` may be so far away."),
        "svmSignatureClusterId": text("Cluster id of the signing domain, for Solana sources."),
        "svmSignatureDomainVersion": seconds("Version of the signing domain, for Solana sources."),
    });
    let extra = json!({
        "gw": object("What this scheme needs.", &["destination", "fulfillmentAmount"], gw),
    });
    object(
        "The requirement that the payer chose from a 402.",
        &["scheme", "network", "asset", "payTo", "amount", "maxTimeoutSeconds", "extra"],
        json!({
            "scheme": text(&format!("`{SCHEME}`.")),
            "network": text("CAIP-2 id of the source chain."),
            "asset": text("What is paid with: the asset's bare reference on `network`, or its CAIP-19 id."),
            "payTo": text("The merchant's account, as in `extra.gw.destination.address`; or the escrow."),
            "amount": text("The most that is taken from the payer, smallest unit: the request's `max_source_amount`."),
            "maxTimeoutSeconds": {
                "type": "integer",
                "minimum": 1,
                "description": "Longest time settle may take. The gateway has a bound of its own besides.",
            },
            "extra": object("Members of the scheme.", &["gw"], extra),
        }),
    )
}

/// The codes that answer x402 and nothing else, at a status that the others do not have.
fn reasons() -> Vec<String> {
    let of_x402 = Code::ALL.iter().filter(|code| code.status == Some(StatusCode::OK));
    of_x402.map(|code| code.code.to_ascii_lowercase()).collect()
}

fn payer() -> Value {
    text("The source account. Absent where it could not be read.")
}

fn extensions() -> Value {
    object("What the gateway says besides.", &["gw"], json!({"gw": schema("X402Extension")}))
}

fn verify_response() -> Value {
    object(
        "Whether the payment would be settled.",
        &["isValid", "extensions"],
        json!({
            "isValid": {"type": "boolean", "description": "Whether settle would take it, or has taken it."},
            "invalidReason": {
                "type": "string",
                "examples": reasons(),
                "description": "Why not: the error's code in lower case, or x402's own word for it.",
            },
            "invalidMessage": text("For humans. Names the member that is at fault."),
            "payer": payer(),
            "extensions": extensions(),
        }),
    )
}

fn settle_response() -> Value {
    object(
        "What came of the payment.",
        &["success", "transaction", "network", "extensions"],
        json!({
            "success": {"type": "boolean", "description": "Whether the merchant was paid."},
            "errorReason": {
                "type": "string",
                "examples": reasons(),
                "description": "Why not, or `settlement_pending`: not yet. The error's code in lower case, or x402's own word for it.",
            },
            "errorMessage": text("For humans. Names the member that is at fault."),
            "transaction": text(
                "The delivery's hash. While the settlement is pending the deposit's, on the source chain. Empty where there \
                 is none.",
            ),
            "network": text("CAIP-2 id of the destination's chain. Empty where it could not be read."),
            "payer": payer(),
            "extensions": extensions(),
            "fulfillmentConfirmation": described("FulfillmentConfirmation", "The receipt, once the payment is completed."),
        }),
    )
}

fn extension() -> Value {
    let classes = [
        RetryClassification::RetryAfterDelay,
        RetryClassification::RetryWithNewRequestId,
        RetryClassification::NotRetryableFixRequest,
        RetryClassification::NotRetryable,
        RetryClassification::ReconcileThenDecide,
    ];
    object(
        "The payment, and what to do about an answer that is no success.",
        &[],
        json!({
            "paymentId": matching(PAYMENT_ID_PATTERN, "The payment's id."),
            "state": {
                "type": "string",
                "enum": ["pending", "finalizing", "completed", "failed", "rejected", "unknown"],
                "description": "The payment's status; `rejected` where there is no payment, `unknown` where that cannot be said.",
            },
            "statusUrl": json!({"type": "string", "format": "uri", "description": "Where the payment is read: JSON for programs, a page for browsers."}),
            "idempotentReplay": {
                "type": "boolean",
                "description": "Whether the payment was there before this call. A merchant sells once for each `paymentId`.",
            },
            "code": {
                "type": "string",
                "pattern": CODE_PATTERN,
                "examples": Code::ALL.iter().filter(|code| code.status == Some(StatusCode::OK)).map(|code| code.code).collect::<Vec<_>>(),
                "description": "The error's code.",
            },
            "retryClassification": {"type": "string", "enum": classes, "description": "What to do next."},
            "docsUrl": {"type": "string", "format": "uri", "description": "Page that describes the code."},
            "error": described("PaymentFailure", "Only when `failed`."),
            "transactions": schema("PaymentTransactions"),
            "fulfillmentConfirmation": described("FulfillmentConfirmation", "The same as at the top, where stock clients drop it."),
        }),
    )
}

fn supported() -> Value {
    let assets = || json!({"type": "array", "items": schema("X402Asset"), "description": "What is served there."});
    let target = json!({
        "network": matching(CHAIN_ID_PATTERN, "CAIP-2 id."),
        "fulfillmentProxy": text("The requirement's `extra.gw.fulfillmentProxy`."),
        "refundDelaySeconds": whole("As above, for this chain; the longer of both counts."),
        "assets": assets(),
    });
    let gw = json!({
        "escrow": text("The requirement's `extra.gw.escrow`."),
        "reserver": text("The requirement's `extra.gw.reserver`."),
        "releaser": text("The requirement's `extra.gw.releaser`."),
        "fulfillmentVerifierEndpoint": text("The requirement's `extra.gw.fulfillmentVerifierEndpoint`."),
        "permit2": text("Permit2, on EVM chains."),
        "svmSignatureClusterId": text("The requirement's `extra.gw.svmSignatureClusterId`, on Solana."),
        "svmSignatureDomainVersion": whole("The requirement's `extra.gw.svmSignatureDomainVersion`, on Solana."),
        "messageSchemes": {"type": "array", "items": {"type": "string"}, "description": "How its payers sign."},
        "refundDelaySeconds": whole("Least time from `fulfillment_deadline` to the refund window, in seconds."),
        "gateway": text("Address of this service, for `/v1/payments/prepare` and `/v1/defaults`."),
        "assets": assets(),
        "destinations": {
            "type": "array",
            "items": object("A chain that can be paid on.", &["network", "fulfillmentProxy", "refundDelaySeconds", "assets"], target),
            "description": "Where merchants can be paid.",
        },
    });
    let required = ["escrow", "reserver", "releaser", "fulfillmentVerifierEndpoint", "assets", "destinations"];
    let extra = object(
        "Members of the scheme.",
        &["gw"],
        json!({"gw": object("What a requirement is built from.", &required, gw)}),
    );
    let kind = json!({
        "x402Version": version(),
        "scheme": {"type": "string", "const": SCHEME, "description": "The scheme."},
        "network": matching(CHAIN_ID_PATTERN, "CAIP-2 id of the source chain."),
        "extra": extra,
    });
    object(
        "What the facilitator takes.",
        &["kinds", "extensions", "signers"],
        json!({
            "kinds": {
                "type": "array",
                "items": object("A source chain.", &["x402Version", "scheme", "network", "extra"], kind),
                "description": "One for each chain that can be paid from.",
            },
            "extensions": {"type": "array", "items": {"type": "string"}, "description": "Extensions that are understood."},
            "signers": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": {"type": "string"}},
                "description": "By chain, the accounts that sign for the gateway.",
            },
        }),
    )
}

fn asset() -> Value {
    object(
        "An asset that is served.",
        &["asset", "assetIdentifier", "symbol", "decimals"],
        json!({
            "asset": text("Its bare reference, as in a requirement."),
            "assetIdentifier": text("Its CAIP-19 id."),
            "symbol": text("For display."),
            "decimals": whole("For display."),
        }),
    )
}
