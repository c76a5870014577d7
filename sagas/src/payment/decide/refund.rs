//! Decisions about the refund of the escrow.

use events::{
    PaymentEvent,
    event::{TransactionAbandoned, TransactionPrepared},
    time::Timestamp,
};

use super::Decided;
use crate::payment::Payment;

/// A refund was signed.
pub(super) fn prepare(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let attempts = &payment.refund;
    let may_refund = payment.may_refund(payment.stage());
    let is_next = may_refund && attempts.live.is_empty() && transaction.attempt == attempts.count + 1;
    is_next.then(|| vec![PaymentEvent::RefundPrepared(transaction)])
}

/// The refund under way was signed again.
pub(super) fn reprice(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let replaces = payment.may_refund(payment.stage()) && payment.refund.replaced_by(&transaction).is_ok();
    replaces.then(|| vec![PaymentEvent::RefundRepriced(transaction)])
}

/// The refund under way can never land.
pub(super) fn abandon(payment: &Payment, evidence: String, at: Timestamp) -> Decided {
    let attempt = payment.refund.newest().filter(|_| payment.may_refund(payment.stage()))?.attempt;
    Some(vec![PaymentEvent::RefundAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at })])
}
