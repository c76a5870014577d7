//! The auction leg: quotes are collected until the deadline, or until all have answered; then the best is awarded, or the
//! selector that the payer named is asked until its time is over. A payment out of a batch has had its auction there.

use events::time::Timestamp;

use super::{Action, Step};
use crate::payment::Payment;

pub(super) fn next(payment: &Payment, now: Timestamp) -> Step {
    if payment.submitted.collected_quote.is_some() {
        // Its award is in the same commit as its submission, so nothing is ever driven in this state.
        return Step::Rest;
    }
    match payment.selection() {
        Some(request) if now > request.answer_by => Step::Do(Box::new(Action::GiveUpSelector)),
        Some(request) => Step::Do(Box::new(Action::AskSelector(request))),
        None => Step::Do(Box::new(Action::GatherBids(payment.request_for_quotes()))),
    }
}
