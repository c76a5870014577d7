//! Metrics of the verifier: how asks were answered, and what was attested for which chain.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use metrics::{Counter, counter};

use events::ChainId;

use super::Verdict;

/// How an ask was answered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answered {
    Attested,
    Pending,
    Refused,
    Invalid,
    Unproven,
    Busy,
    Unavailable,
    Internal,
}

/// The handles, made once.
pub(super) struct ServiceMetrics {
    attested: Counter,
    pending: Counter,
    refused: Counter,
    invalid: Counter,
    unproven: Counter,
    busy: Counter,
    unavailable: Counter,
    internal: Counter,
    /// By chain of the escrow.
    judged: Mutex<HashMap<ChainId, Judged>>,
}

/// Those of one chain.
#[derive(Clone)]
struct Judged {
    attested: Counter,
    pending: Counter,
    refused: Counter,
    unavailable: Counter,
}

impl Default for ServiceMetrics {
    fn default() -> Self {
        let of = |outcome: &'static str| counter!("gw_verifier_answers_total", "outcome" => outcome);
        Self {
            attested: of("attested"),
            pending: of("pending"),
            refused: of("refused"),
            invalid: of("invalid"),
            unproven: of("unproven"),
            busy: of("busy"),
            unavailable: of("unavailable"),
            internal: of("internal"),
            judged: Mutex::default(),
        }
    }
}

impl ServiceMetrics {
    /// Counts an answer.
    pub(super) fn answered(&self, answered: Answered) {
        let counter = match answered {
            Answered::Attested => &self.attested,
            Answered::Pending => &self.pending,
            Answered::Refused => &self.refused,
            Answered::Invalid => &self.invalid,
            Answered::Unproven => &self.unproven,
            Answered::Busy => &self.busy,
            Answered::Unavailable => &self.unavailable,
            Answered::Internal => &self.internal,
        };
        counter.increment(1);
    }

    /// Counts what came of a judgement; `None` when the chains could not be read. The chain was found among those of the
    /// configuration before, so there are no more series than that has chains.
    pub(super) fn judged(&self, chain_id: &ChainId, verdict: Option<&Verdict>) {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        let of_chain = judged.entry(chain_id.clone()).or_insert_with(|| {
            let of = |outcome: &'static str| {
                counter!("gw_attestations_total", "chain" => chain_id.to_string(), "outcome" => outcome)
            };
            Judged {
                attested: of("attested"),
                pending: of("pending"),
                refused: of("refused"),
                unavailable: of("unavailable"),
            }
        });
        let counter = match verdict {
            Some(Verdict::Attested { .. }) => &of_chain.attested,
            Some(Verdict::Pending { .. }) => &of_chain.pending,
            Some(Verdict::Refused { .. }) => &of_chain.refused,
            None => &of_chain.unavailable,
        };
        counter.increment(1);
    }
}

impl From<&Verdict> for Answered {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Attested { .. } => Self::Attested,
            Verdict::Pending { .. } => Self::Pending,
            Verdict::Refused { .. } => Self::Refused,
        }
    }
}
