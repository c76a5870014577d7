//! Errors: ErrorResponse (spec 2.10), PaymentFailure (spec 2.9), and why settlers declined (spec 2.11).

use events::failure::{Domain, RetryClassification};
use serde_json::{Value, json};

use super::{
    CHAIN_ID_PATTERN, CODE_PATTERN, CONTRACT_PATTERN, PAYMENT_ID_PATTERN, TRANSACTION_HASH_PATTERN, matching, object,
    schema, text, whole,
};
use app::error::{Code, MESSAGE_CHARS_MAX};

pub(super) fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("ErrorResponse", error_response()),
        ("PaymentFailure", payment_failure()),
        ("PaymentBlockchainContext", blockchain_context()),
        ("DeclineSummary", decline_summary()),
    ]
}

fn error_response() -> Value {
    object(
        "Every error of the API.",
        &["code", "message"],
        json!({
            "code": matching(CODE_PATTERN, "Stable identity of the error: branch on it, not on `message`."),
            "message": {
                "type": "string",
                "minLength": 1,
                "maxLength": MESSAGE_CHARS_MAX,
                "description": "For humans; may be reworded. Faults of a body begin with the member's name.",
            },
            "request_id": text("Correlation id to quote to support, the value of the header `X-Request-Id`."),
            "payment_id": matching(PAYMENT_ID_PATTERN, "Absent when the error is not about a specific payment."),
            "docs_url": docs_url(),
            "domain": domain(),
            "retry_classification": retry_classification("What to do about submitting a new request."),
            "request_id_reusable": {
                "type": "boolean",
                "description": "True: no payment was created, so the id is free. False: a payment exists and the id \
                                is spent. Absent is read as false.",
            },
        }),
    )
}

fn payment_failure() -> Value {
    object(
        "Why a payment failed; the same however the payment is read.",
        &["code", "message"],
        json!({
            "code": {
                "type": "string",
                "pattern": CODE_PATTERN,
                "examples": codes_inside_payments(|domain| domain != Domain::SettlerAgent),
                "description": "Stable identity of the reason: branch on it, not on `message`.",
            },
            "message": text("For humans; may be reworded."),
            "domain": domain(),
            "docs_url": docs_url(),
            "retry_classification": retry_classification("What to do next. Absent means unclassified."),
            "request_id_reusable": {
                "type": "boolean",
                "description": "Whether the same `request_id` may be sent again. Absent is read as false.",
            },
            "blockchain_context": schema("PaymentBlockchainContext"),
        }),
    )
}

fn blockchain_context() -> Value {
    object(
        "Where on a chain a failure happened.",
        &[],
        json!({
            "chain_id": matching(CHAIN_ID_PATTERN, "CAIP-2 id."),
            "transaction_hash": matching(TRANSACTION_HASH_PATTERN, "The transaction that failed."),
            "block_number": whole("Its block."),
            "contract_address": matching(CONTRACT_PATTERN, "The contract that refused."),
            "revert_reason": text("The decoded reason."),
            "gas_used": text("Gas, energy or compute units used, decimal."),
            "estimated_gas_needed": text("What the transaction would have needed, decimal."),
        }),
    )
}

fn decline_summary() -> Value {
    object(
        "How many settlers declined for one reason, each counted once under its most recent one.",
        &["reason", "count"],
        json!({
            "reason": {
                "type": "string",
                "examples": codes_inside_payments(|domain| domain == Domain::SettlerAgent),
                "description": "Reason code, such as `INSUFFICIENT_LIQUIDITY`. Settlers may have their own.",
            },
            "count": whole("Number of settlers."),
            "retry_classification": retry_classification("Absent for a reason that the gateway does not know."),
            "docs_url": docs_url(),
        }),
    )
}

/// The codes of the table that answer no request themselves.
fn codes_inside_payments(of: fn(Domain) -> bool) -> Vec<&'static str> {
    Code::ALL.iter().filter(|code| code.status.is_none() && of(code.domain)).map(|code| code.code).collect()
}

fn docs_url() -> Value {
    json!({"type": "string", "format": "uri", "description": "Page that describes the code."})
}

fn domain() -> Value {
    use Domain::{
        Blockchain, ExternalService, PaymentGateway, SettlerAgent, SettlerGateway, VerificationService,
        WalletOrchestration,
    };
    let domains = [
        PaymentGateway,
        SettlerGateway,
        SettlerAgent,
        WalletOrchestration,
        VerificationService,
        Blockchain,
        ExternalService,
    ];
    json!({"type": "string", "enum": domains, "description": "Service domain in which the error arose."})
}

fn retry_classification(description: &str) -> Value {
    use RetryClassification::{
        NotRetryable, NotRetryableFixRequest, ReconcileThenDecide, RetryAfterDelay, RetryWithNewRequestId,
    };
    let classes = [RetryAfterDelay, RetryWithNewRequestId, NotRetryableFixRequest, NotRetryable, ReconcileThenDecide];
    json!({"type": "string", "enum": classes, "description": description})
}
