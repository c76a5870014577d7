//! The leg of a deposit address: the money is awaited there, and what is there of a payment that failed before its escrow is given
//! back once nobody can deposit it any more.

use events::time::{Timestamp, from_unix_seconds};

use super::{Action, Step, is_past, payer_deposit};
use crate::payment::Payment;

pub(super) fn next(payment: &Payment) -> Step {
    Step::Do(Box::new(Action::AwaitFunds { deposit: payer_deposit(payment) }))
}

/// The payment failed before its escrow, and money may be at the address.
pub(super) fn next_watching(payment: &Payment, now: Timestamp) -> Step {
    let reserve_deadline = payment.submitted.escrow.reserve_deadline;
    if !is_past(now, reserve_deadline) {
        return from_unix_seconds(reserve_deadline + 1).map_or(Step::Rest, Step::WaitUntil);
    }
    Step::Do(Box::new(Action::WatchAddress { deposit: payer_deposit(payment) }))
}

/// Money is at the address.
pub(super) fn next_held(payment: &Payment) -> Step {
    let deposit = payer_deposit(payment);
    Step::Do(Box::new(match payment.refund.live.is_empty() {
        true => Action::SecureGiveBack { deposit, attempt: payment.refund.count + 1 },
        false => Action::FollowGiveBack { deposit, versions: payment.refund.live.clone() },
    }))
}
