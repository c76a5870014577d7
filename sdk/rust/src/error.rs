//! Errors: what a gateway refuses, what is unknown, and what this client does not go along with.

use std::{fmt, time::Duration};

use serde::Deserialize;

use events::{PaymentId, failure::RetryClassification};

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The gateway answered with an error.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// Nobody knows what became of the call. Whatever it was to do may have happened: the same is asked again, unchanged.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// What is to be signed, or what the gateway names, is not what was asked for. Nothing was signed for it.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// The call cannot be made: a value that cannot be meant, or a payment that cannot be signed for.
    #[error("{0}")]
    Invalid(String),
    /// A key gave no signature.
    #[error("no signature: {0}")]
    Key(String),
    /// A node of a chain gave no answer that can be concluded from.
    #[error("the node gives no answer that counts: {0}")]
    Node(String),
    /// A chain refuses the call; nothing was sent, or it was sent and had no effect.
    #[error("the chain refuses it: {0}")]
    Reverted(String),
    /// A transaction of the caller's own could cost more than it allows.
    #[error("{what} could cost {cost}, and at most {max} may be spent on it")]
    Dear {
        /// The transaction.
        what: String,
        /// Its cost at most, in the chain's smallest unit.
        cost: String,
        /// What is allowed.
        max: String,
    },
}

impl Error {
    /// Whether the call may have had its effect: then only the same call, unchanged, tells.
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::NoAnswer(_) => true,
            Self::Refused(refusal) => refusal.is_unknown(),
            Self::Mismatch(_)
            | Self::Invalid(_)
            | Self::Key(_)
            | Self::Node(_)
            | Self::Reverted(_)
            | Self::Dear { .. } => false,
        }
    }

    /// What the gateway refused, where it did.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

/// Why the outcome of a call is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nothing is known of the outcome: {reason}")]
pub struct NoAnswer {
    /// What happened to the connection, or was wrong with the answer.
    pub reason: String,
    /// How long the one that answered wants to be left alone.
    pub retry_after: Option<Duration>,
}

impl NoAnswer {
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), retry_after: None }
    }
}

/// An error that the gateway answered with (spec 2.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status. Of one payment of a batch, whose error has none of its own, that of its code, or 400.
    pub status: u16,
    /// Stable identity of the error: branch on it, not on the message.
    pub code: String,
    /// For humans.
    pub message: String,
    /// Correlation id to quote to support.
    pub request_id: Option<String>,
    /// The payment that it is about.
    pub payment_id: Option<PaymentId>,
    /// Page that describes the code.
    pub docs_url: Option<String>,
    /// Where it arose.
    pub domain: Option<String>,
    /// What to do next; `None` where the gateway does not classify it, or by a word that is not known here. That is not the same
    /// as safe to retry.
    pub retry_classification: Option<RetryClassification>,
    /// What is known of the `request_id`: `true` where no payment exists under it.
    pub request_id_reusable: Option<bool>,
    /// The answer's `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// The member of the request that is at fault, where the message begins with one: `destination[0].account` of
    /// `destination[0].account: must not be the zero address`.
    pub fn field(&self) -> Option<&str> {
        let (field, _) = self.message.split_once(": ")?;
        let first = field.bytes().next()?;
        let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'[' | b']' | b'-' | b'@');
        ((first.is_ascii_alphabetic() || first == b'@') && field.bytes().all(legal)).then_some(field)
    }

    /// Whether the request may have been accepted all the same. A 503 says that nothing was.
    pub fn is_unknown(&self) -> bool {
        self.status >= 500 && self.status != 503
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Refusal {}

/// An error's body as it comes; no member but code and message is promised.
#[derive(Deserialize)]
pub(crate) struct ErrorBody {
    code: String,
    message: String,
    request_id: Option<String>,
    payment_id: Option<String>,
    docs_url: Option<String>,
    domain: Option<String>,
    retry_classification: Option<String>,
    request_id_reusable: Option<bool>,
}

impl ErrorBody {
    /// The refusal that it is, or `None` when its code is not one.
    pub(crate) fn into_refusal(self, status: u16, retry_after: Option<Duration>) -> Option<Refusal> {
        let legal = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
        let is_code = self.code.as_bytes().first().is_some_and(u8::is_ascii_uppercase) && self.code.bytes().all(legal);
        is_code.then(|| Refusal {
            status,
            code: self.code,
            message: self.message,
            request_id: self.request_id,
            payment_id: self.payment_id.and_then(|id| id.parse().ok()),
            docs_url: self.docs_url,
            domain: self.domain,
            retry_classification: self.retry_classification.and_then(|word| classification(&word)),
            request_id_reusable: self.request_id_reusable,
            retry_after,
        })
    }
}

impl TryFrom<ErrorBody> for Refusal {
    type Error = String;

    /// What is refused of one payment among several, with the status that its code has alone: the answer to all has another.
    fn try_from(body: ErrorBody) -> Result<Self, String> {
        let status = status_of(&body.code);
        body.into_refusal(status, None).ok_or_else(|| "an error's code is not one".to_owned())
    }
}

/// The status of a code by which the same request is sent again; any other is of those that their classification alone tells apart.
fn status_of(code: &str) -> u16 {
    match code {
        "RATE_LIMITED" | "CONTRACT_PAYER_EXHAUSTED" => 429,
        "INTERNAL_ERROR" | "OUTCOME_UNKNOWN" => 500,
        "SERVICE_PAUSED" | "SERVICE_UNAVAILABLE" | "CHAIN_UNAVAILABLE" => 503,
        _ => 400,
    }
}

/// The classification that a word is; `None` for one that is not known here.
pub(crate) fn classification(word: &str) -> Option<RetryClassification> {
    serde_json::from_value(word.into()).ok()
}

/// Something that is not what the payer asked for, or not what it pinned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {expected}, not {found}; nothing was signed for it")]
pub struct Mismatch {
    /// What differs.
    pub field: String,
    /// What the payer demands.
    pub expected: String,
    /// What the gateway says.
    pub found: String,
}

impl Mismatch {
    /// `field` has to be `expected`, and is `found`.
    pub fn new(field: impl Into<String>, expected: impl ToString, found: impl ToString) -> Self {
        Self { field: field.into(), expected: expected.to_string(), found: found.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(message: &str) -> Refusal {
        let body = serde_json::json!({"code": "INVALID_REQUEST", "message": message, "retry_classification": "LATER"});
        serde_json::from_value::<ErrorBody>(body).unwrap().into_refusal(400, None).unwrap()
    }

    #[test]
    fn the_member_at_fault_is_read_from_the_message() {
        for (message, field) in [
            ("destination[0].account: must not be the zero address", Some("destination[0].account")),
            ("@context: must be there", Some("@context")),
            ("The request is not of the form the contract asks for.", None),
            ("a chain of the payment: is away", None),
            ("", None),
        ] {
            assert_eq!(refusal(message).field(), field, "{message}");
        }
        assert_eq!(refusal("x").retry_classification, None, "a word that is not known classifies nothing");
    }

    #[test]
    fn a_503_says_that_nothing_was_accepted_and_other_faults_of_the_server_do_not() {
        for (status, unknown) in [(400, false), (429, false), (500, true), (502, true), (503, false)] {
            assert_eq!(Refusal { status, ..refusal("x") }.is_unknown(), unknown, "{status}");
        }
    }
}
