//! The refund leg: money in escrow goes back to the payer, by the releaser's signed non-delivery while that counts and
//! by the refund window afterwards. It is tried until it is done.

use events::{
    event::RefundDue,
    time::{Timestamp, from_unix_seconds},
};

use super::{Action, Step, is_past, payer_deposit};
use crate::{payment::Payment, ports::RefundOrder};

pub(super) fn next(payment: &Payment, now: Timestamp) -> Step {
    let escrow = &payment.submitted.escrow;
    let window_open = is_past(now, escrow.refund_after);
    let due = payment.failed.as_ref().map(|failed| &failed.refund);
    let non_delivery = match due {
        Some(RefundDue::ByNonDelivery { attestation }) if !window_open => Some(attestation.clone()),
        _ => None,
    };
    let order = RefundOrder { payment_id: payment.submitted.payment_id.clone(), escrow: escrow.clone(), non_delivery };
    if !payment.refund.live.is_empty() {
        return Step::Do(Box::new(Action::FollowRefund { order, versions: payment.refund.live.clone() }));
    }
    if order.non_delivery.is_none() && !window_open {
        // A time beyond the calendar cannot be waited for; the payer signed it, and the escrow keeps to it.
        return from_unix_seconds(escrow.refund_after + 1).map_or(Step::Rest, Step::WaitUntil);
    }
    Step::Do(Box::new(Action::SecureRefund { order, attempt: payment.refund.count + 1 }))
}

/// The payment failed before its escrow, while a transaction of the payer's own that deposits may be on its way: wallets
/// broadcast by themselves. The escrow takes it up to the reserve deadline.
pub(super) fn next_watching(payment: &Payment, now: Timestamp) -> Step {
    let reserve_deadline = payment.submitted.escrow.reserve_deadline;
    if !is_past(now, reserve_deadline) {
        return from_unix_seconds(reserve_deadline + 1).map_or(Step::Rest, Step::WaitUntil);
    }
    Step::Do(Box::new(Action::WatchDeposit { deposit: payer_deposit(payment) }))
}
