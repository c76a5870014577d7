//! Errors of signing, and what kind of fault each is.

use sagas::ports::Transient;

/// Why there is no signature. `key` says which key it is and where, and nothing that is secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// A key in memory did not sign.
    #[error("the key of {0} does not sign")]
    Local(String),
    /// The service gives no answer, or not now. Time mends it.
    #[error("{key}: {reason}")]
    Unreachable {
        /// Which key.
        key: String,
        /// What happened.
        reason: String,
    },
    /// The service is asked for too much.
    #[error("{key}: {reason}")]
    RateLimited {
        /// Which key.
        key: String,
        /// What it says.
        reason: String,
    },
    /// An answer that is not one.
    #[error("{key}: {reason}")]
    Unreadable {
        /// Which key.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The service does not let this key be used: it is not there, or not for this caller.
    #[error("{key}: {reason}")]
    Unusable {
        /// Which key.
        key: String,
        /// What it says.
        reason: String,
    },
    /// What is to be signed is nothing that the service signs.
    #[error("{key}: {reason}")]
    Unsuited {
        /// Which key.
        key: String,
        /// Why not.
        reason: String,
    },
    /// What the service gave is of another key: nothing that it signs may be used.
    #[error("{key}: it answers with another key than that of {account}{}", with(found.as_deref()))]
    OtherKey {
        /// Which key.
        key: String,
        /// The account that it should be of.
        account: String,
        /// The account that it is of, where the service told its public key.
        found: Option<String>,
    },
}

impl SignError {
    /// The same of another key at the same service.
    pub(crate) fn of_key(self, other: &str) -> Self {
        let key = other.to_owned();
        match self {
            Self::Unreachable { reason, .. } => Self::Unreachable { key, reason },
            Self::RateLimited { reason, .. } => Self::RateLimited { key, reason },
            Self::Unreadable { reason, .. } => Self::Unreadable { key, reason },
            Self::Unusable { reason, .. } => Self::Unusable { key, reason },
            Self::Unsuited { reason, .. } => Self::Unsuited { key, reason },
            error @ (Self::Local(_) | Self::OtherKey { .. }) => error,
        }
    }
}

fn with(found: Option<&str>) -> String {
    found.map_or_else(String::new, |found| format!(": with that of {found}"))
}

impl From<SignError> for Transient {
    /// Nothing that was signed is out, so it may be tried again; the kind says who can mend it.
    fn from(error: SignError) -> Self {
        match error {
            SignError::Unreachable { .. } => Self::unreachable(error),
            SignError::RateLimited { .. } => Self::rate_limited(error),
            SignError::Unreadable { .. } => Self::contradiction(error),
            SignError::Local(_)
            | SignError::Unusable { .. }
            | SignError::Unsuited { .. }
            | SignError::OtherKey { .. } => Self::misconfigured(error),
        }
    }
}
