//! The x402 calls: their operations, examples, and errors, which have the shape of the call's own answer.

use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use app::error::{Code, docs_url};

use super::{
    examples,
    operation::{Body, Operation, of_error},
    operations::{ORDER, READ},
    parameters::prefer,
    schemas::schema,
};

/// Section of the document.
pub(super) const TAG: &str = "x402";

/// What may be wrong with the form of a message.
const FORM: &[&Code] =
    &[Code::INVALID_X402_VERSION, Code::INVALID_PAYMENT_IDENTIFIER, Code::PAYMENT_IDENTIFIER_REQUIRED];
/// What belongs to another payment already.
const TAKEN: &[&Code] = &[Code::PAYMENT_IDENTIFIER_CONFLICT, Code::IDEMPOTENCY_TERMS_MISMATCH, Code::REQUEST_ID_TAKEN];

pub(super) const SUPPORTED: Operation = Operation {
    method: Method::GET,
    path: "/x402/v1/supported",
    id: "readX402Supported",
    tag: TAG,
    summary: "Read what the facilitator takes",
    description: "Each source chain, with what a merchant needs to write its 402.",
    parameters: Vec::new,
    request: None,
    response: Body::Json("X402Supported", examples::x402::supported),
    no_content: None,
    headers: &[],
    errors: &[&[Code::INTERNAL_ERROR]],
};

pub(super) const VERIFY: Operation = Operation {
    method: Method::POST,
    path: "/x402/v1/verify",
    id: "verifyX402Payment",
    tag: TAG,
    summary: "Verify a payment for a merchant",
    description: "Makes every check of settle, reads the payer's balance and allowance, and accepts nothing. A judgement is \
                  answered with 200, whatever it is.",
    parameters: Vec::new,
    request: Some(Body::Json("X402Message", examples::x402::message)),
    response: Body::Json("X402VerifyResponse", examples::x402::verified),
    no_content: None,
    headers: &["Deprecation"],
    errors: &[FORM, ORDER, TAKEN, READ],
};

pub(super) const SETTLE: Operation = Operation {
    method: Method::POST,
    path: "/x402/v1/settle",
    id: "settleX402Payment",
    tag: TAG,
    summary: "Settle a payment for a merchant",
    description: "Submits the payment request of the payload, and holds until it is delivered or `maxTimeoutSeconds` are over, of the \
                  scheme `exact` with `deliverySeconds` added; less where the gateway's bound, `Prefer: wait` or too many held calls cut it, which `heldSeconds` tells. \
                  The identical call later tells what came of it. Refusals for anything but form and conflicts are \
                  answered with 200.",
    parameters: || vec![prefer()],
    request: Some(Body::Json("X402Message", examples::x402::message)),
    response: Body::Json("X402SettleResponse", examples::x402::settled),
    no_content: None,
    headers: &["Deprecation", "PAYMENT-RESPONSE"],
    errors: &[FORM, ORDER, TAKEN, &[Code::OUTCOME_UNKNOWN, Code::SERVICE_PAUSED, Code::CHAIN_UNAVAILABLE], READ],
};

pub(super) const OFFERS: Operation = Operation {
    method: Method::POST,
    path: "/x402/v1/offers",
    id: "makeX402Offer",
    tag: TAG,
    summary: "Make an offer for stock clients",
    description: "Computes what stands in a merchant's 402 of the scheme `exact`, so that any client of x402 pays it in a token on one \
                  chain, and the merchant is paid on another. The address in it commits to the whole offer and serves all buyers. \
                  Nothing is kept, and the same question has the same answer for as long as contracts and accounts are the same.",
    parameters: Vec::new,
    request: Some(Body::Json("X402OfferRequest", examples::x402::offer_request)),
    response: Body::Json("X402Offer", examples::x402::offer),
    no_content: None,
    headers: &[],
    errors: &[&[Code::INVALID_REQUEST, Code::REQUEST_TOO_LARGE, Code::RATE_LIMITED, Code::CHAIN_UNAVAILABLE], READ],
};

/// Whether errors of the call whose 200 has the schema `name` have the shape of that.
pub(super) fn answers_so(name: &str) -> bool {
    ["X402VerifyResponse", "X402SettleResponse"].contains(&name)
}

/// The answer of the call whose 200 has the schema `name`, with one of `codes`.
pub(super) fn error_response(name: &str, status: StatusCode, codes: &[&Code], base_url: &str) -> Value {
    let description: Vec<String> = codes.iter().map(|code| format!("`{}`: {}", code.code, code.message)).collect();
    let examples: Map<String, Value> = codes
        .iter()
        .map(|code| (code.code.to_owned(), json!({"value": example(name, status, code, base_url)})))
        .collect();
    // A defect may break the call off where its shape is not known any more (spec 2.10).
    let schemas = if status == StatusCode::INTERNAL_SERVER_ERROR {
        json!({"oneOf": [schema(name), schema("ErrorResponse")]})
    } else {
        schema(name)
    };
    json!({
        "description": description.join("\n\n"),
        "headers": of_error(status),
        "content": {"application/json": {"schema": schemas, "examples": examples}},
    })
}

fn example(name: &str, status: StatusCode, code: &Code, base_url: &str) -> Value {
    let reason = match code.code {
        "INVALID_REQUEST" => "invalid_payload".to_owned(),
        "INTERNAL_ERROR" if name == "X402VerifyResponse" => "unexpected_verify_error".to_owned(),
        "INTERNAL_ERROR" => "unexpected_settle_error".to_owned(),
        code => code.to_ascii_lowercase(),
    };
    let state = if status == StatusCode::INTERNAL_SERVER_ERROR { "unknown" } else { "rejected" };
    let extensions = json!({"gw": {
        "state": state,
        "code": code.code,
        "retryClassification": code.retry_classification,
        "docsUrl": docs_url(base_url, code.code),
    }});
    if name == "X402VerifyResponse" {
        return json!({
            "isValid": false,
            "invalidReason": reason,
            "invalidMessage": code.message,
            "extensions": extensions,
        });
    }
    json!({
        "success": false,
        "errorReason": reason,
        "errorMessage": code.message,
        "transaction": "",
        "network": "",
        "extensions": extensions,
    })
}
