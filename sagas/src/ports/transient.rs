//! Transient faults: what went wrong without saying anything about the outcome, by kind, with its source.

use std::{error::Error, fmt, sync::Arc};

use journal::{budget, ledger};

/// What a fault comes from.
type Source = Arc<dyn Error + Send + Sync>;

/// A fault that says nothing about the outcome. It is retried with back-off for as long as it takes, and never ends a
/// payment. The kind is set where the fault arises; it says who can mend it.
#[derive(Clone, thiserror::Error)]
pub enum Transient {
    /// No answer, or not yet: a time-out, a connection that broke, a chain or read model that is not there yet. Time mends it.
    #[error(transparent)]
    Unreachable(Source),
    /// A limit is reached for now: requests to a provider, room in a store, coins that transactions under way take. Less
    /// load or more means mend it.
    #[error(transparent)]
    RateLimited(Source),
    /// An answer that cannot stand beside another one, or beside what is journaled: a node that lags, that lies, or that
    /// refuses what a node answers. Another look or another node mends it.
    #[error(transparent)]
    Contradiction(Source),
    /// Nothing mends it but an operator: a chain or key that is not configured, a node of another chain, an order or stored
    /// bytes that cannot be used. It raises an alarm, and is retried with the longest back-off once it lasts.
    #[error(transparent)]
    Misconfigured(Source),
}

impl Transient {
    /// See [`Transient::Unreachable`].
    pub fn unreachable<E: Into<Box<dyn Error + Send + Sync>>>(source: E) -> Self {
        Self::Unreachable(Arc::from(source.into()))
    }

    /// See [`Transient::RateLimited`].
    pub fn rate_limited<E: Into<Box<dyn Error + Send + Sync>>>(source: E) -> Self {
        Self::RateLimited(Arc::from(source.into()))
    }

    /// See [`Transient::Contradiction`].
    pub fn contradiction<E: Into<Box<dyn Error + Send + Sync>>>(source: E) -> Self {
        Self::Contradiction(Arc::from(source.into()))
    }

    /// See [`Transient::Misconfigured`].
    pub fn misconfigured<E: Into<Box<dyn Error + Send + Sync>>>(source: E) -> Self {
        Self::Misconfigured(Arc::from(source.into()))
    }

    /// The fault that a node's HTTP status other than success is. The key in the node's URL is wrong or has ended, or the
    /// provider does not serve this caller (401, 403); too much was asked for now (429); anything else is not an answer.
    pub fn of_http_status<E: Into<Box<dyn Error + Send + Sync>>>(status: u16, source: E) -> Self {
        match status {
            401 | 403 => Self::misconfigured(source),
            429 => Self::rate_limited(source),
            _ => Self::unreachable(source),
        }
    }

    /// The kind as it stands in logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::RateLimited(_) => "rate limited",
            Self::Contradiction(_) => "contradiction",
            Self::Misconfigured(_) => "misconfigured",
        }
    }

    /// Whether only an operator can mend it.
    pub fn is_misconfigured(&self) -> bool {
        matches!(self, Self::Misconfigured(_))
    }
}

impl fmt::Debug for Transient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transient({}, {:?})", self.kind(), self.to_string())
    }
}

impl From<ledger::Error> for Transient {
    fn from(error: ledger::Error) -> Self {
        match error {
            ledger::Error::Unavailable(_) | ledger::Error::Contended => Self::unreachable(error),
            ledger::Error::Exhausted { .. } => Self::rate_limited(error),
            ledger::Error::Damaged(_) => Self::misconfigured(error),
        }
    }
}

impl From<budget::Error> for Transient {
    fn from(error: budget::Error) -> Self {
        match error {
            budget::Error::Unavailable(_) | budget::Error::Contended => Self::unreachable(error),
            budget::Error::Damaged(_) => Self::misconfigured(error),
        }
    }
}

/// Faults are equal that say the same.
impl PartialEq for Transient {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.to_string() == other.to_string()
    }
}

impl Eq for Transient {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_http_status_has_its_kind() {
        let kinds = [401, 403, 429, 503].map(|status| Transient::of_http_status(status, "no").kind());
        assert_eq!(kinds, ["misconfigured", "misconfigured", "rate limited", "unreachable"]);
    }

    #[test]
    fn a_fault_says_what_its_source_says_and_keeps_it() {
        let io = || std::io::Error::other("connection reset");
        let fault = Transient::unreachable(io());
        assert_eq!((fault.to_string(), fault.kind()), ("connection reset".to_owned(), "unreachable"));
        assert_eq!(fault, Transient::unreachable("connection reset"));
        assert_ne!(fault, Transient::contradiction("connection reset"));
        assert!(!fault.is_misconfigured() && Transient::misconfigured("no keys").is_misconfigured());

        #[derive(Debug, thiserror::Error)]
        #[error("the ledger cannot be read")]
        struct Ledger(#[source] std::io::Error);
        let fault = Transient::unreachable(Ledger(io()));
        assert_eq!(fault.source().map(ToString::to_string).as_deref(), Some("connection reset"));
    }
}
