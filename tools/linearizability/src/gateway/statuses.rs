//! What is shown of a payment.

use std::collections::BTreeMap;

use super::{Answer, Op, Status};
use crate::Model;

/// A payment that was shown as completed is never shown as failed, to anybody, nor the other way round; and whoever sends the
/// position of an answer with the next read (`X-Position`) is shown no less than that answer was made from, whichever
/// gateways gave them. A payment goes on by itself, so each read may show more.
#[derive(Debug)]
pub enum Statuses {}

/// What was shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shown {
    /// The end, once anybody was shown it.
    outcome: Option<Status>,
    /// How far the payment was along for each session.
    ranks: BTreeMap<String, u8>,
}

impl Model for Statuses {
    type State = Shown;
    type Op = Op;
    type Answer = Answer;
    /// The payment's id.
    type Key = String;

    fn key(op: &Op) -> Option<String> {
        let (Op::Submit { payment, .. } | Op::Award { payment, .. } | Op::Read { payment, .. }) = op;
        Some(payment.clone())
    }

    fn initial() -> Shown {
        Shown::default()
    }

    fn step(shown: &Shown, op: &Op, answer: &Answer) -> Option<Shown> {
        let (Op::Submit { session, .. } | Op::Award { session, .. } | Op::Read { session, .. }) = op;
        let status = match answer {
            Answer::Accepted { status, .. } | Answer::Shown(status) => *status,
            Answer::Refused { .. } | Answer::Absent => return Some(shown.clone()),
        };
        let is_older = shown.ranks.get(session).is_some_and(|rank| status.rank() < *rank);
        let is_end = matches!(status, Status::Completed | Status::Failed);
        let is_other = is_end && shown.outcome.is_some_and(|outcome| outcome != status);
        if is_older || is_other {
            return None;
        }
        let mut after = shown.clone();
        after.ranks.insert(session.clone(), status.rank());
        after.outcome = after.outcome.or(is_end.then_some(status));
        Some(after)
    }

    fn effect(shown: &Shown, _: &Op) -> Shown {
        shown.clone()
    }
}
