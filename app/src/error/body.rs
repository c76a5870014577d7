//! The body that an error is answered with (spec 2.10).

use schemars::JsonSchema;
use serde::Serialize;

use events::{
    PaymentId,
    failure::{Domain, RetryClassification},
};

use super::{Error, MESSAGE_CHARS_MAX, docs_url};
use crate::schema;

/// Every error of the API.
// Spec 2.10, which promises no more than these two.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["code", "message"]))]
pub struct ErrorResponse {
    /// Stable identity of the error: branch on it, not on `message`.
    #[schemars(regex(pattern = schema::CODE_PATTERN))]
    code: &'static str,
    /// For humans; may be reworded. Faults of a body begin with the member's name.
    #[schemars(length(min = 1, max = MESSAGE_CHARS_MAX))]
    message: String,
    /// Correlation id to quote to support, the value of the header `X-Request-Id`.
    request_id: String,
    /// Absent when the error is not about a specific payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<PaymentId>,
    /// Page that describes the code.
    #[schemars(url)]
    docs_url: String,
    /// Service domain in which the error arose.
    #[schemars(schema_with = "schema::domain")]
    domain: Domain,
    /// What to do about submitting a new request.
    #[schemars(schema_with = "schema::retry_classification")]
    retry_classification: RetryClassification,
    /// True: no payment exists under the id, so it is free. False: a payment exists and the id is spent. Absent where neither is
    /// known; it is read as false.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id_reusable: Option<bool>,
}

impl Error {
    /// The body to answer with.
    pub fn into_body(self, request_id: &str, base_url: &str) -> ErrorResponse {
        let (code, request_id_reusable) = (self.code, self.request_id_reusable());
        ErrorResponse {
            code: code.code,
            message: self.message(),
            request_id: request_id.to_owned(),
            payment_id: self.payment_id,
            docs_url: docs_url(base_url, code.code),
            domain: code.domain,
            retry_classification: code.retry_classification,
            request_id_reusable,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::error::Code;

    fn sent(message: String) -> Value {
        let body = Error::new(Code::INVALID_REQUEST, message).into_body("req_1", "https://pay.example");
        serde_json::from_str(&serde_json::to_string(&body).unwrap()).unwrap()
    }

    #[test]
    fn messages_are_sent_cut_to_length_between_characters() {
        assert_eq!(sent("ü".repeat(600))["message"], "ü".repeat(500));
        assert_eq!(sent("ü".repeat(500))["message"], "ü".repeat(500));
    }
}
