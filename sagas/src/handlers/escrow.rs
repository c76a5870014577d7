//! The escrow leg: the winner is told and answers, and the payer's funds are deposited and reserved in one transaction. A
//! winner whose payment ends without a deposit is told that, too.

use events::{
    event::WithdrawalCause,
    time::{Timestamp, from_unix_seconds},
};

use super::{Action, Step, case, deposit_order, is_past};
use crate::{
    payment::{Awarded, DEPOSIT_ATTEMPTS_MAX, Payment},
    ports::Award,
};

pub(super) fn next_awarded(payment: &Payment, award: &Awarded, now: Timestamp) -> Step {
    if is_past(now, payment.submitted.escrow.reserve_deadline) {
        return Step::Do(Box::new(Action::RuleOutDeposit { order: deposit_order(payment, award) }));
    }
    if payment.deposit.count >= DEPOSIT_ATTEMPTS_MAX {
        // The payer's own transaction may land up to the end of its window, and then goes back.
        return match payment.submitted.authorization.is_payer_deposit() {
            true => {
                from_unix_seconds(payment.submitted.escrow.reserve_deadline + 1).map_or(Step::Rest, Step::WaitUntil)
            }
            false => Step::Do(Box::new(Action::GiveUpDeposit { order: deposit_order(payment, award) })),
        };
    }
    let notice = Award {
        settler: award.quote.settler.clone(),
        case: case(payment, award),
        quote_hash: award.event.quote_hash,
        verifier: payment.submitted.verifier.clone(),
        replaceable_until: payment.replaceable_until(),
        escrowed: None,
    };
    Step::Do(Box::new(Action::SecureDeposit {
        award: Box::new(notice),
        order: deposit_order(payment, award),
        attempt: payment.deposit.count + 1,
    }))
}

pub(super) fn next_depositing(payment: &Payment, award: &Awarded) -> Step {
    let versions = payment.deposit.live.clone();
    Step::Do(Box::new(Action::FollowDeposit { order: deposit_order(payment, award), versions }))
}

pub(super) fn next_withdrawn(payment: &Payment, award: &Awarded) -> Step {
    let code = payment.withdrawn.as_ref().map(WithdrawalCause::code).unwrap_or_default();
    Step::Do(Box::new(Action::TellWinner(award.ended(&payment.submitted.payment_id, code))))
}
