//! Errors of the use cases: an [`Error`] with a [`Code`] of the one table that there is, `codes.rs`, says why one was not
//! carried out.

mod body;
mod code;
mod codes;
mod faults;

use http::StatusCode;

use events::PaymentId;
use net::callers::Refusal;
use sagas::ports::Transient;

pub use self::{
    body::ErrorResponse,
    code::{Code, docs_url},
};

/// Longest `message` of an ErrorResponse (spec 8).
pub const MESSAGE_CHARS_MAX: usize = 500;

/// Why a use case was not carried out. It becomes an [`ErrorResponse`] at the edge, which knows the request's id and the
/// address of the service.
#[derive(Debug, Clone)]
pub struct Error {
    pub code: &'static Code,
    message: String,
    payment_id: Option<PaymentId>,
    request_id_state: RequestIdState,
    /// When to come again, where the error knows better than the configuration.
    retry_after_seconds: Option<u64>,
}

/// What is known of the payment, or the batch, under the request's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestIdState {
    /// Nothing: the journal was not asked, or did not answer.
    Unknown,
    /// The journal has none.
    Absent,
    /// There is one.
    Exists,
}

impl Error {
    /// An error with a message of its own. The message is shown to anyone, so it must not carry secrets or internals.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            payment_id: None,
            request_id_state: RequestIdState::Unknown,
            retry_after_seconds: None,
        }
    }

    /// 503 for a transient fault, which is logged with its kind, once in a while. `what` says what could not be done; the caller
    /// is told nothing of either. It is not an alarm, of whatever kind: who asks can bring about that a provider refuses. The
    /// engine raises one where a payment under way waits for it (ADR 102).
    pub(crate) fn unavailable(fault: &Transient, what: &str) -> Self {
        faults::log(fault, what);
        Code::SERVICE_UNAVAILABLE.into()
    }

    /// Says in which member of the body it is. Its own message may name a member of that.
    pub(crate) fn within(mut self, path: &str) -> Self {
        let is_path = |text: &str| text.bytes().all(|c| c.is_ascii_alphanumeric() || b"_-.[]@".contains(&c));
        let names_one = self.message.split_once(": ").is_some_and(|(name, _)| is_path(name));
        self.message = format!("{path}{}{}", if names_one { "." } else { ": " }, self.message);
        self
    }

    /// Says which payment the error is about.
    pub fn about(mut self, payment_id: &PaymentId) -> Self {
        self.payment_id = Some(payment_id.clone());
        self
    }

    /// Says that the journal has nothing under the request's id.
    pub(crate) fn nothing_exists(mut self) -> Self {
        self.request_id_state = RequestIdState::Absent;
        self
    }

    /// Says that there is something under the request's id already, so that the id is spent.
    pub(crate) fn exists(mut self) -> Self {
        self.request_id_state = RequestIdState::Exists;
        self
    }

    /// Whether it is still to be found out if something exists under the request's id: of a refusal that says nothing of it.
    pub(crate) fn is_undecided(&self) -> bool {
        let status = self.status();
        // x402's own refusals are answered with 200.
        let refuses = status.is_client_error() || status.is_success() || status == StatusCode::SERVICE_UNAVAILABLE;
        refuses && self.request_id_state == RequestIdState::Unknown && self.request_id_reusable().is_none()
    }

    /// Whether it is about the form of a body or about what it names, which no configuration and no clock makes wrong.
    pub(crate) fn is_of_form(&self) -> bool {
        let by_rule =
            self.code.named_by_contract || matches!(self.code.code, "INVALID_REQUEST" | "AWARD_TERMS_MISMATCH");
        self.status().is_client_error() && (by_rule || self.status() == StatusCode::NOT_FOUND)
    }

    /// Whether the `request_id` may be used for a new request (spec 2.10). `Some(true)` only where the journal was asked and has
    /// nothing under it, so that nobody begins a second payment in the belief that there is none.
    pub fn request_id_reusable(&self) -> Option<bool> {
        match self.request_id_state {
            RequestIdState::Unknown => self.code.request_id_reusable.filter(|reusable| !reusable),
            RequestIdState::Absent => self.code.request_id_reusable,
            RequestIdState::Exists => Some(false),
        }
    }

    /// Says when to come again.
    pub fn after(mut self, seconds: u64) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// When to come again, where that is known.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    /// The table's entry for a status that was answered without an error of ours, as by the framework.
    pub fn of_status(status: StatusCode) -> Self {
        let of_server = if status.is_server_error() { Code::INTERNAL_ERROR } else { Code::INVALID_REQUEST };
        let own = match status {
            StatusCode::NOT_FOUND => Code::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED => Code::METHOD_NOT_ALLOWED,
            StatusCode::PAYLOAD_TOO_LARGE => Code::REQUEST_TOO_LARGE,
            StatusCode::TOO_MANY_REQUESTS => Code::RATE_LIMITED,
            StatusCode::SERVICE_UNAVAILABLE => Code::SERVICE_UNAVAILABLE,
            _ => of_server,
        };
        own.into()
    }

    /// The status to answer with.
    pub fn status(&self) -> StatusCode {
        self.code.status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What is said, as long as it may be.
    pub fn message(&self) -> String {
        self.message.chars().take(MESSAGE_CHARS_MAX).collect()
    }

    /// The payment it is about.
    pub fn payment_id(&self) -> Option<&PaymentId> {
        self.payment_id.as_ref()
    }
}

impl From<&'static Code> for Error {
    fn from(code: &'static Code) -> Self {
        Self::new(code, code.message)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let message = format!("Too many requests: {refusal}. Come again after as long as Retry-After says.");
        Self { retry_after_seconds: Some(refusal.retry_after_seconds()), ..Self::new(Code::RATE_LIMITED, message) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use events::failure::RetryClassification;

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
            for text in [code.message, code.explanation, code.remedy] {
                assert!((1..=MESSAGE_CHARS_MAX).contains(&text.chars().count()), "{}: {text}", code.code);
                assert!(text.ends_with('.') && !text.contains("  "), "{}: {text}", code.code);
                assert_eq!(text.matches('`').count() % 2, 0, "{}: {text}", code.code);
                // What the service is made of is nobody's business.
                let lower = text.to_lowercase();
                for internal in ["nats", "jetstream", "sled", "tokio", "axum", "::", ".rs", "panic", "127.0.0.1"] {
                    assert!(!lower.contains(internal), "{}: {text}", code.code);
                }
            }
            // 503 promises that nothing was accepted (idempotency rule 10).
            if code.status == Some(StatusCode::SERVICE_UNAVAILABLE) {
                assert_ne!(code.request_id_reusable, Some(false), "{}", code.code);
                assert_eq!(code.retry_classification, RetryClassification::RetryAfterDelay, "{}", code.code);
            }
            assert_eq!(Code::find(code.code), Some(*code));
        }
    }
}
