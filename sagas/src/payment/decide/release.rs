//! Decisions about the release of the escrow, and about whatever ended the escrow.

use events::{
    PaymentEvent,
    event::{Claim, EscrowRefunded, EscrowReleased, TransactionAbandoned, TransactionPrepared},
    time::Timestamp,
};

use super::Decided;
use crate::{
    payment::{Payment, Stage},
    ports::EscrowState,
};

/// The escrow was looked at, while it is to be released or refunded.
pub(super) fn observe_escrow(payment: &Payment, state: EscrowState, claims: Vec<Claim>) -> Decided {
    if !matches!(payment.stage(), Stage::Attesting | Stage::Completed | Stage::Refunding) {
        return None;
    }
    Some(match state {
        EscrowState::Released(inclusion) => {
            vec![PaymentEvent::EscrowReleased(EscrowReleased { inclusion, claims })]
        }
        EscrowState::Refunded(refunded) => {
            vec![PaymentEvent::EscrowRefunded(EscrowRefunded { claims, ..refunded })]
        }
        EscrowState::Absent | EscrowState::Held | EscrowState::Lapsed => Vec::new(),
    })
}

/// A release was signed.
pub(super) fn prepare(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let attempts = &payment.release;
    let may_release = payment.may_release(payment.stage());
    let is_next = may_release && attempts.live.is_empty() && transaction.attempt == attempts.count + 1;
    is_next.then(|| vec![PaymentEvent::ReleasePrepared(transaction)])
}

/// The release under way was signed again.
pub(super) fn reprice(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let replaces = payment.stage() == Stage::Completed && payment.release.replaced_by(&transaction).is_ok();
    replaces.then(|| vec![PaymentEvent::ReleaseRepriced(transaction)])
}

/// The release under way can never land.
pub(super) fn abandon(payment: &Payment, evidence: String, at: Timestamp) -> Decided {
    let attempt = payment.release.newest().filter(|_| payment.stage() == Stage::Completed)?.attempt;
    Some(vec![PaymentEvent::ReleaseAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at })])
}
