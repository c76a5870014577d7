//! What is wrong with a requirement.

use crate::error::{Code, Error};

/// A fault of a requirement: `UNSUPPORTED_SCHEME`, `INVALID_NETWORK` or `INVALID_PAYMENT_REQUIREMENTS`.
#[derive(Debug, thiserror::Error)]
#[error("{member}: {rule}")]
pub(super) struct Fault {
    pub(super) code: &'static Code,
    /// The path of the member that is at fault, in the requirement.
    pub(super) member: String,
    /// What it must be.
    pub(super) rule: String,
}

impl Fault {
    /// Of a member that has the wrong form, or names something that is not the gateway's own.
    pub(super) fn invalid(member: &str, rule: impl std::fmt::Display) -> Self {
        Self { code: Code::INVALID_PAYMENT_REQUIREMENTS, member: member.to_owned(), rule: rule.to_string() }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::new(fault.code, format!("paymentRequirements.{fault}"))
    }
}
