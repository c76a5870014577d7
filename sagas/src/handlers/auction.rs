//! The auction leg: quotes are collected until the deadline, or until all have answered. A payment out of a batch has had
//! its auction there.

use super::{Action, Step};
use crate::{auction::request_for_quotes, payment::Payment};

pub(super) fn next(payment: &Payment) -> Step {
    if payment.submitted.collected_quote.is_some() {
        // Its award is in the same commit as its submission, so nothing is ever driven in this state.
        return Step::Rest;
    }
    Step::Do(Box::new(Action::GatherBids(request_for_quotes(&payment.submitted))))
}
