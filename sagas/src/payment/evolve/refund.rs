//! The fold of the refund: its attempts, and the transaction that refunded the escrow.

use events::event::{EscrowRefunded, TransactionAbandoned, TransactionPrepared};

use super::{Followed, NOT_LEGAL};
use crate::payment::{Payment, Stage};

pub(super) fn prepared(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if !payment.may_refund(stage) {
        return Err(NOT_LEGAL);
    }
    Ok(payment.refund.begin(transaction)?)
}

pub(super) fn repriced(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if !payment.may_refund(stage) {
        return Err(NOT_LEGAL);
    }
    Ok(payment.refund.replace(transaction)?)
}

pub(super) fn abandoned(payment: &mut Payment, stage: Stage, abandoned: &TransactionAbandoned) -> Followed {
    if !payment.may_refund(stage) {
        return Err(NOT_LEGAL);
    }
    Ok(payment.refund.give_up(abandoned)?)
}

pub(super) fn refunded(payment: &mut Payment, stage: Stage, refunded: &EscrowRefunded) -> Followed {
    if !matches!(stage, Stage::Refunding | Stage::Attesting | Stage::Completed) {
        return Err(NOT_LEGAL);
    }
    payment.refunded = Some(refunded.clone());
    Ok(())
}
