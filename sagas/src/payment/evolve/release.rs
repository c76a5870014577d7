//! The fold of the release: its attempts, and the transaction that released the escrow.

use events::event::{EscrowReleased, TransactionAbandoned, TransactionPrepared};

use super::{Followed, NOT_LEGAL};
use crate::payment::{Payment, Stage};

pub(super) fn prepared(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if !payment.may_release(stage) {
        return Err(NOT_LEGAL);
    }
    Ok(payment.release.begin(transaction)?)
}

pub(super) fn repriced(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if stage != Stage::Completed {
        return Err(NOT_LEGAL);
    }
    Ok(payment.release.replace(transaction)?)
}

pub(super) fn abandoned(payment: &mut Payment, stage: Stage, abandoned: &TransactionAbandoned) -> Followed {
    if stage != Stage::Completed {
        return Err(NOT_LEGAL);
    }
    Ok(payment.release.give_up(abandoned)?)
}

pub(super) fn released(payment: &mut Payment, stage: Stage, released: &EscrowReleased) -> Followed {
    match stage {
        Stage::Refunding if payment.held.is_some() => Err("the money was never in escrow".into()),
        Stage::Refunding if payment.opened.as_ref().is_some_and(|opened| opened.reserved_for.is_none()) => {
            Err("no settler was named for the escrow".into())
        }
        Stage::Attesting | Stage::Completed | Stage::Refunding => {
            payment.released = Some(released.inclusion.clone());
            Ok(())
        }
        _ => Err(NOT_LEGAL),
    }
}
