//! A batch as a register that is written once.

use super::{Answer, Op};
use crate::Model;

/// The code of a refusal because the batch has a winner.
const AWARDED: &str = "QUOTE_REQUEST_ALREADY_AWARDED";

/// One quote of a batch is awarded, to one payment.
#[derive(Debug)]
pub enum Awards {}

impl Model for Awards {
    /// The quote, and the payment that has it.
    type State = Option<(String, String)>;
    type Op = Op;
    type Answer = Answer;
    /// The batch.
    type Key = String;

    fn key(op: &Op) -> Option<String> {
        match op {
            Op::Award { batch, .. } => Some(batch.clone()),
            Op::Submit { .. } | Op::Read { .. } => None,
        }
    }

    fn initial() -> Self::State {
        None
    }

    fn step(winner: &Self::State, op: &Op, answer: &Answer) -> Option<Self::State> {
        let wanted = wanted(op)?;
        match answer {
            Answer::Accepted { .. } => winner.as_ref().is_none_or(|winner| *winner == wanted).then_some(Some(wanted)),
            Answer::Refused { code, .. } => {
                let is_lost = winner.as_ref().is_some_and(|winner| winner.1 != wanted.1);
                (code != AWARDED || is_lost).then(|| winner.clone())
            }
            Answer::Shown(_) | Answer::Absent => None,
        }
    }

    fn effect(winner: &Self::State, op: &Op) -> Self::State {
        winner.clone().or_else(|| wanted(op))
    }
}

/// Quote and payment that an award wants to bring together.
fn wanted(op: &Op) -> Option<(String, String)> {
    match op {
        Op::Award { quote, payment, .. } => Some((quote.clone(), payment.clone())),
        Op::Submit { .. } | Op::Read { .. } => None,
    }
}
