//! Every error code there is, in one table, and the body an error is answered with.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;

use events::{
    PaymentId,
    failure::{Domain, RetryClassification},
};

/// Longest `message` of an ErrorResponse (spec 8).
const MESSAGE_CHARS_MAX: usize = 500;

/// What is said about an error code wherever it appears: in responses, in the failure of a payment, in a decline
/// summary, and on the page that `docs_url` leads to.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// The stable identity, SCREAMING_SNAKE_CASE.
    pub code: &'static str,
    /// Status it is answered with; `None` for codes that only appear inside a payment.
    pub status: Option<StatusCode>,
    /// What it means; the message of a response that has nothing more exact to say.
    pub message: &'static str,
    /// Where it arises.
    pub domain: Domain,
    /// What the caller should do next.
    pub retry_classification: RetryClassification,
    /// Whether the same `request_id` may be sent again for a new payment; `None` where that is not the question or not
    /// known.
    pub request_id_reusable: Option<bool>,
    /// Whether the contract names it. When a body has several faults, such a code is the one that is answered.
    pub named_by_contract: bool,
}

macro_rules! codes {
    ($($name:ident $status:expr, $domain:ident, $retry:ident, $reusable:expr, $named:expr, $message:expr;)*) => {
        impl Code {
            $(
                #[doc = $message]
                pub const $name: &'static Self = &Self {
                    code: stringify!($name),
                    status: $status,
                    message: $message,
                    domain: Domain::$domain,
                    retry_classification: RetryClassification::$retry,
                    request_id_reusable: $reusable,
                    named_by_contract: $named,
                };
            )*

            /// The whole table.
            pub const ALL: &'static [&'static Self] = &[$(Self::$name),*];
        }
    };
}

codes! {
    INVALID_REQUEST Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The request is not of the form the contract asks for.";
    INVALID_REQUEST_ID Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), true,
        "A request_id has 1 to 128 characters out of letters, digits, `_`, `-` and `.`.";
    INVALID_SOURCE_ASSET Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), true,
        "The source asset is no CAIP-19 identifier.";
    INVALID_DESTINATION_ACCOUNT Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), true,
        "A destination account is not valid on its chain.";
    UNSUPPORTED_ASSET Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The asset is well formed, but this gateway does not serve it.";
    INVALID_DEADLINE Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "A deadline is past, too near, or out of order.";
    UNTRUSTED_VERIFIER Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The fulfillment verifier is neither the default one nor a trusted one.";
    UNTRUSTED_ESCROW Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The escrow contract is neither the default one nor trusted by this gateway.";
    UNTRUSTED_PROXY Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The fulfillment proxy is neither the default one nor trusted by this gateway on every destination chain.";
    UNTRUSTED_SELECTOR Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The quote selector is not trusted by this gateway.";
    SELECTOR_NOT_SUPPORTED Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "This gateway selects quotes itself; leave quote_selector out.";
    INVALID_SENDER_AUTH Some(StatusCode::UNAUTHORIZED), WalletOrchestration, NotRetryableFixRequest, Some(true), false,
        "The signature or sender authorization could not be verified.";
    NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "There is nothing under this path.";
    PAYMENT_NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "There is no payment with this id.";
    CHAIN_NOT_SUPPORTED Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "This gateway does not serve the chain.";
    METHOD_NOT_ALLOWED Some(StatusCode::METHOD_NOT_ALLOWED), PaymentGateway, NotRetryableFixRequest, None, false,
        "The path does not know this method.";
    IDEMPOTENCY_TERMS_MISMATCH Some(StatusCode::CONFLICT), PaymentGateway, RetryWithNewRequestId, Some(false), true,
        "The request_id was used for a payment with other economics. Use a new request_id.";
    REQUEST_ID_TAKEN Some(StatusCode::CONFLICT), PaymentGateway, RetryWithNewRequestId, Some(false), true,
        "The request_id is in use by another account. Use a new request_id.";
    REQUEST_TOO_LARGE Some(StatusCode::PAYLOAD_TOO_LARGE), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The request is too large to process.";
    INTERNAL_ERROR Some(StatusCode::INTERNAL_SERVER_ERROR), PaymentGateway, ReconcileThenDecide, None, true,
        "An unexpected error. Send the same request again, or read the payment's status, to learn what happened.";
    OUTCOME_UNKNOWN Some(StatusCode::INTERNAL_SERVER_ERROR), PaymentGateway, ReconcileThenDecide, None, false,
        "It is not known whether the payment was accepted. Send the same request again: it can be accepted only once.";
    SERVICE_UNAVAILABLE Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, Some(true), false,
        "A dependency is temporarily unavailable. Nothing was accepted; the same request is safe to retry.";
    NOT_READY Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, None, false,
        "The gateway is not ready to serve.";
    NO_QUOTES_RECEIVED None, SettlerGateway, RetryWithNewRequestId, Some(false), true,
        "No quotes arrived within the auction window.";
    SETTLEMENT_FAILED None, Blockchain, RetryWithNewRequestId, Some(false), true,
        "The settlement could not be completed. Funds in escrow are returned.";
    INSUFFICIENT_LIQUIDITY None, SettlerAgent, RetryAfterDelay, None, true,
        "The settler does not hold enough of the destination asset for now.";
    TEMPORARILY_UNAVAILABLE None, SettlerAgent, RetryAfterDelay, None, false,
        "The settler cannot tell for now what it holds.";
    PRICE_ABOVE_CAP None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler's price is above max_source_amount.";
    DEADLINE_TOO_SHORT None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The deadlines leave the settler too little time to deliver, or to be paid afterwards.";
    POLICY_NOT_HELD None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler does not hold a policy that settler_auth_required asks for.";
    UNSUPPORTED_CORRIDOR None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler does not trade the source asset for any of the destinations.";
    UNTRUSTED_CONTRACT None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler does not trust the escrow contract or the fulfillment proxy.";
    UNSPECIFIED None, SettlerAgent, RetryAfterDelay, None, false,
        "The settler declined without saying why.";
}

impl Code {
    /// The entry of `code`, for codes that come from a payment's history.
    pub fn find(code: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|entry| entry.code == code)
    }
}

/// Address of the page that describes `code`.
pub(super) fn docs_url(base_url: &str, code: &str) -> String {
    format!("{base_url}/docs/errors#{code}")
}

/// An error on its way to the client. It becomes an [`ErrorResponse`] in the outermost layer, which knows the request's
/// id and the address of the service.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub(super) code: &'static Code,
    message: String,
    payment_id: Option<PaymentId>,
}

impl ApiError {
    /// An error with a message of its own. The message is shown to anyone, so it must not carry secrets or internals.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), payment_id: None }
    }

    /// Says which payment the error is about.
    pub fn about(mut self, payment_id: &PaymentId) -> Self {
        self.payment_id = Some(payment_id.clone());
        self
    }

    /// The table's entry for a status that was answered without an error of ours, as by the framework.
    pub(super) fn of_status(status: StatusCode) -> Self {
        let of_server = if status.is_server_error() { Code::INTERNAL_ERROR } else { Code::INVALID_REQUEST };
        let own = match status {
            StatusCode::NOT_FOUND => Code::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED => Code::METHOD_NOT_ALLOWED,
            StatusCode::PAYLOAD_TOO_LARGE => Code::REQUEST_TOO_LARGE,
            StatusCode::SERVICE_UNAVAILABLE => Code::SERVICE_UNAVAILABLE,
            _ => of_server,
        };
        own.into()
    }

    /// The status to answer with.
    pub(super) fn status(&self) -> StatusCode {
        self.code.status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body to answer with.
    pub(super) fn into_body(self, request_id: &str, base_url: &str) -> ErrorResponse {
        let code = self.code;
        ErrorResponse {
            code: code.code,
            message: self.message.chars().take(MESSAGE_CHARS_MAX).collect(),
            request_id: request_id.to_owned(),
            payment_id: self.payment_id,
            docs_url: docs_url(base_url, code.code),
            domain: code.domain,
            retry_classification: code.retry_classification,
            request_id_reusable: code.request_id_reusable,
        }
    }
}

impl From<&'static Code> for ApiError {
    fn from(code: &'static Code) -> Self {
        Self::new(code, code.message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Body of every error (spec 2.10).
#[derive(Debug, Serialize)]
pub struct ErrorResponse {
    code: &'static str,
    message: String,
    request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<PaymentId>,
    docs_url: String,
    domain: Domain,
    retry_classification: RetryClassification,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id_reusable: Option<bool>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_keeps_the_contract() {
        let codes: BTreeSet<_> = Code::ALL.iter().map(|code| code.code).collect();
        assert_eq!(codes.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(
                code.code.bytes().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_'),
                "{}",
                code.code
            );
            assert!(code.code.starts_with(|c: char| c.is_ascii_uppercase()), "{}", code.code);
            assert!((1..=MESSAGE_CHARS_MAX).contains(&code.message.chars().count()), "{}", code.code);
            // 503 promises that nothing was accepted (idempotency rule 10).
            if code.status == Some(StatusCode::SERVICE_UNAVAILABLE) {
                assert_ne!(code.request_id_reusable, Some(false), "{}", code.code);
                assert_eq!(code.retry_classification, RetryClassification::RetryAfterDelay, "{}", code.code);
            }
            assert_eq!(Code::find(code.code), Some(*code));
        }
    }

    #[test]
    fn messages_are_cut_to_length_between_characters() {
        let error = ApiError::new(Code::INVALID_REQUEST, "ü".repeat(600));
        assert_eq!(error.into_body("id", "http://x").message.chars().count(), 500);
    }
}
