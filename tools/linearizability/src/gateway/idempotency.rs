//! A payment's id as a register that is written once.

use super::{Answer, Op};
use crate::Model;

/// The code of a refusal because the id has other terms.
const OTHER_TERMS: &str = "IDEMPOTENCY_TERMS_MISMATCH";

/// The first accepted terms under an id are the payment's. The same again are a replay and create nothing, others are
/// refused, and every answer that tells of the payment's existence says what holds.
#[derive(Debug)]
pub enum Idempotency {}

impl Model for Idempotency {
    /// The terms of the payment, where there is one.
    type State = Option<String>;
    type Op = Op;
    type Answer = Answer;
    /// The payment's id.
    type Key = String;

    fn key(op: &Op) -> Option<String> {
        let (Op::Submit { payment, .. } | Op::Award { payment, .. } | Op::Read { payment, .. }) = op;
        Some(payment.clone())
    }

    fn initial() -> Self::State {
        None
    }

    fn step(held: &Self::State, op: &Op, answer: &Answer) -> Option<Self::State> {
        let allowed = match (answer, terms(op)) {
            (Answer::Accepted { payment, replay, .. }, Some(terms)) => {
                if Self::key(op).as_ref() != Some(payment) {
                    return None;
                }
                match held {
                    None if !replay => return Some(Some(terms)),
                    None => false,
                    Some(held) => *replay && *held == terms,
                }
            }
            (Answer::Refused { code, exists }, Some(terms)) => {
                let is_other = code != OTHER_TERMS || held.as_ref().is_some_and(|held| *held != terms);
                is_other && exists.is_none_or(|exists| exists == held.is_some())
            }
            (Answer::Shown(_), None) => held.is_some(),
            (Answer::Absent, None) => held.is_none(),
            // What is no answer to such a call.
            _ => false,
        };
        allowed.then(|| held.clone())
    }

    fn effect(held: &Self::State, op: &Op) -> Self::State {
        held.clone().or_else(|| terms(op))
    }
}

/// What a call asks to be paid.
fn terms(op: &Op) -> Option<String> {
    match op {
        Op::Submit { terms, .. } => Some(terms.clone()),
        Op::Award { batch, quote, .. } => Some(format!("{batch}/{quote}")),
        Op::Read { .. } => None,
    }
}
