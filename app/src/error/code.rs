//! Error codes: what one is. The table of them is `codes.rs`.

use http::StatusCode;

use events::failure::{Domain, RetryClassification};

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
    /// Whether the same `request_id` may be sent again for a new payment where none exists under it, which the journal says
    /// for each answer; `None` where that is not the question. `Some(false)` also where the code itself says that one exists.
    pub request_id_reusable: Option<bool>,
    /// Whether the contract names it. When a body has several faults, such a code is the one that is answered.
    pub named_by_contract: bool,
    /// What happened, for the page behind `docs_url`.
    pub explanation: &'static str,
    /// What to do about it, for the same page.
    pub remedy: &'static str,
}

impl Code {
    /// The entry of `code`, for codes that come from a payment's history.
    pub fn find(code: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|entry| entry.code == code)
    }

    /// The codes that answer no request themselves and arise where `of` says.
    pub fn inside_payments(of: fn(Domain) -> bool) -> Vec<&'static str> {
        Self::ALL.iter().filter(|code| code.status.is_none() && of(code.domain)).map(|code| code.code).collect()
    }
}

/// Address of the page that describes `code`.
pub fn docs_url(base_url: &str, code: &str) -> String {
    format!("{base_url}/docs/errors#{code}")
}
