//! The deposit of a payment that the copy of a restored journal has before its deposit (ADR 136): it is looked for on chain until
//! its window is over, and not made.

use super::{Action, Step, deposit_order, payer_deposit};
use crate::payment::Payment;

pub(super) fn next(payment: &Payment) -> Step {
    let order = payment.award.as_deref().map(|award| Box::new(deposit_order(payment, award)));
    Step::Do(Box::new(Action::FindDeposit { deposit: payer_deposit(payment), order }))
}
