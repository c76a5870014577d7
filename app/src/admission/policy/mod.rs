//! Counterparty authorization (spec 5.5): whether a payment is wanted at all, by a Cedar policy set and a deny list.
//!
//! Principal is the originator, action `Pay`, resource the payment; `schema.cedarschema` has every attribute. What no
//! policy permits is declined, what one forbids is declined whatever others permit, and so is what cannot be
//! evaluated. The files are read again when they change; a broken one leaves in force what was.

mod deny;
mod files;
mod rules;
mod statements;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

use config::CounterpartyConfig;
use events::{Account, Terms, event::CounterpartyDecision, time::Timestamp};
use identity::Proven;

pub use self::{
    deny::BadLine,
    files::Error,
    rules::{Decimals, RulesError},
};
use self::{files::Files, rules::Rules};

/// What is about to be accepted.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'a> {
    /// How it came.
    pub kind: RequestKind,
    /// Id of the payment or of the quote-request.
    pub id: &'a str,
    /// Who asks (design: identity and idempotency).
    pub originator: &'a str,
    /// What was proven of who asks.
    pub proven: &'a Proven,
    /// Whose tokens are drawn: the source's account, or the buyer where that is its merchant's (ADR 160).
    pub payer: &'a Account,
    /// The economics.
    pub terms: &'a Terms,
    /// Policies a settler must hold to win.
    pub required_policies: &'a [String],
    /// Whether the account that pays is a contract; `None` while nobody has signed.
    pub payer_is_contract: Option<bool>,
}

/// Kind of request that a proposal came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A submission in one call.
    Payment,
    /// A quote-request that is opened.
    QuoteRequest,
    /// A quote that is awarded.
    Award,
}

impl RequestKind {
    /// The kind as policies see it: the attribute `stage`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::QuoteRequest => "quote_request",
            Self::Award => "award",
        }
    }
}

/// A proposal that is not wanted. The reason is for logs, never for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Declined {
    reason: String,
}

impl Declined {
    fn listed() -> Self {
        Self { reason: "an account or the originator is on the deny list".to_owned() }
    }

    fn by(policies: Vec<String>) -> Self {
        let reason = match policies.as_slice() {
            [] => "no policy permits it".to_owned(),
            some => format!("forbidden by {}", some.join(", ")),
        };
        Self { reason }
    }

    fn not_evaluated(error: String) -> Self {
        Self { reason: format!("policies cannot be evaluated: {error}") }
    }
}

/// The counterparty authorization of a gateway. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Counterparties {
    inner: Option<Arc<Inner>>,
}

#[derive(Debug)]
struct Inner {
    files: Files,
    decimals: Decimals,
    rules: RwLock<Arc<Rules>>,
}

impl Counterparties {
    /// Permits everyone, as where nothing is configured.
    pub fn everyone() -> Self {
        Self::default()
    }

    /// Reads the configured files; amounts in tokens are counted by `decimals`. Everyone is permitted where none is
    /// configured.
    ///
    /// # Errors
    /// [`Error`] when a file cannot be used: a gateway does not start with a broken one.
    pub fn load(config: &CounterpartyConfig, decimals: Decimals) -> Result<Self, Error> {
        if config.policy_file.is_none() && config.deny_list.is_none() {
            return Ok(Self::everyone());
        }
        let files = Files::new(config);
        let rules = files.compile()?;
        announce(&rules);
        Ok(Self { inner: Some(Arc::new(Inner { files, decimals, rules: RwLock::new(Arc::new(rules)) })) })
    }

    /// What permits the proposal; `None` where nothing is configured.
    ///
    /// # Errors
    /// [`Declined`].
    pub fn judge(&self, proposal: &Proposal<'_>, now: Timestamp) -> Result<Option<CounterpartyDecision>, Declined> {
        let Some(inner) = &self.inner else { return Ok(None) };
        let rules = Arc::clone(&inner.rules.read().unwrap_or_else(PoisonError::into_inner));
        rules.judge(proposal, &inner.decimals, now).map(Some)
    }

    /// Follows the files until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        let Some(inner) = &self.inner else { return shutdown.cancelled().await };
        inner.files.follow(&shutdown, |outcome| inner.take(outcome)).await;
    }
}

impl Inner {
    fn take(&self, outcome: Result<Rules, Error>) {
        let rules = match outcome {
            Ok(rules) => rules,
            Err(error) => {
                tracing::error!(%error, "COUNTERPARTY POLICIES ARE BROKEN: what was in force before stays in force");
                return;
            }
        };
        let mut current = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        if current.hash() != rules.hash() {
            announce(&rules);
            *current = Arc::new(rules);
        }
    }
}

fn announce(rules: &Rules) {
    let (policies, denied) = rules.counts();
    tracing::info!(policy_set = %rules.hash(), policies, denied, "counterparty policies in force");
}
