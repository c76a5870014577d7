//! The auction leg: quotes are collected until the deadline, or until all have answered.

use super::{Action, Step};
use crate::{auction::request_for_quotes, payment::Payment};

pub(super) fn next(payment: &Payment) -> Step {
    Step::Do(Box::new(Action::GatherBids(request_for_quotes(&payment.submitted))))
}
