//! The reassignment leg (ADR 148): the settler that the escrow is reserved for can't deliver any more, so quotes are collected anew,
//! capped at what is in escrow, and the escrow is reassigned to the winner. Without one the money goes back.

use super::{Action, Step, case, reservation};
use crate::{
    payment::{Awarded, Payment, REASSIGNMENT_ATTEMPTS_MAX},
    ports::{Award, Escrowed, ReassignmentOrder},
};

pub(super) fn next_reopened(payment: &Payment) -> Step {
    Step::Do(Box::new(Action::GatherBids(payment.request_for_quotes())))
}

pub(super) fn next_reawarded(payment: &Payment, award: &Awarded) -> Step {
    let Some(order) = reassignment_order(payment, award) else { return Step::Rest };
    if payment.reassignment.count >= REASSIGNMENT_ATTEMPTS_MAX {
        return Step::Do(Box::new(Action::GiveUpReassignment { order }));
    }
    let notice = Award {
        settler: award.quote.settler.clone(),
        case: case(payment, award),
        quote_hash: award.event.quote_hash,
        verifier: payment.submitted.verifier.clone(),
        replaceable_until: payment.replaceable_until(),
        escrowed: Some(Escrowed { amount: order.deposited, reserved_for: order.lapsed.quote_hash }),
    };
    let attempt = payment.reassignment.count + 1;
    Step::Do(Box::new(Action::SecureReassignment { award: Box::new(notice), order, attempt }))
}

pub(super) fn next_reassigning(payment: &Payment, award: &Awarded) -> Step {
    let Some(order) = reassignment_order(payment, award) else { return Step::Rest };
    Step::Do(Box::new(Action::FollowReassignment { order, versions: payment.reassignment.live.clone() }))
}

/// `evolve` lets a payment into these stages only with all of it.
fn reassignment_order(payment: &Payment, award: &Awarded) -> Option<ReassignmentOrder> {
    let (submitted, lapsed) = (&payment.submitted, payment.reopened()?);
    Some(ReassignmentOrder {
        payment_id: submitted.payment_id.clone(),
        terms: submitted.terms.clone(),
        terms_hash: submitted.terms_hash,
        escrow: submitted.escrow.clone(),
        authorization: submitted.authorization.clone(),
        deposited: payment.secured.as_ref()?.amount,
        lapsed: reservation(&lapsed.award),
        non_delivery: lapsed.event.attestation.clone(),
        reservation: reservation(award),
    })
}
