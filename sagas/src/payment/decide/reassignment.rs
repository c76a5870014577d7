//! Decisions about the reassignment of an escrow whose reservation lapsed (ADR 148), and about its end without one.

use events::{
    Failure, PaymentEvent,
    event::{
        EscrowReassigned, Failed, Inclusion, MemberAttested, RefundDue, ReservationLapsed, TransactionAbandoned,
        TransactionPrepared,
    },
    failure::{Domain, RetryClassification},
    time::Timestamp,
};

use super::{Decided, settlement::nondeliveries};
use crate::payment::{Payment, REASSIGNMENT_ATTEMPTS_MAX, Stage};

/// Nobody can deliver any more for the reservation in escrow, and the verifiers attest it: quotes are collected anew.
pub(super) fn lapse(
    payment: &Payment,
    given: Vec<MemberAttested>,
    attestation: String,
    quote_deadline: Timestamp,
    at: Timestamp,
) -> Decided {
    let is_open = matches!(payment.stage(), Stage::Secured | Stage::Finalizing);
    let award = payment.award.as_ref().filter(|_| is_open && payment.may_reopen(at, quote_deadline))?;
    let (settler, quote_hash) = (award.quote.settler.clone(), award.event.quote_hash);
    let lapsed = ReservationLapsed { settler, quote_hash, attestation, quote_deadline, lapsed_at: at };
    let mut events: Vec<_> = nondeliveries(payment, given).collect();
    events.push(PaymentEvent::ReservationLapsed(lapsed));
    Some(events)
}

/// A reassignment was signed.
pub(super) fn prepare(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let attempts = &payment.reassignment;
    let is_next = payment.stage() == Stage::Reawarded
        && attempts.count < REASSIGNMENT_ATTEMPTS_MAX
        && transaction.attempt == attempts.count + 1;
    is_next.then(|| vec![PaymentEvent::ReassignmentPrepared(transaction)])
}

/// The reassignment under way was signed again.
pub(super) fn reprice(payment: &Payment, transaction: TransactionPrepared) -> Decided {
    let replaces = payment.stage() == Stage::Reassigning && payment.reassignment.replaced_by(&transaction).is_ok();
    replaces.then(|| vec![PaymentEvent::ReassignmentRepriced(transaction)])
}

/// The reassignment under way can never land.
pub(super) fn abandon(payment: &Payment, evidence: String, at: Timestamp) -> Decided {
    let attempt = payment.reassignment.newest().filter(|_| payment.stage() == Stage::Reassigning)?.attempt;
    Some(vec![PaymentEvent::ReassignmentAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at })])
}

/// The escrow is reserved for the new winner.
pub(super) fn observe(payment: &Payment, inclusion: Inclusion) -> Decided {
    let is_due = matches!(payment.stage(), Stage::Reawarded | Stage::Reassigning);
    is_due.then(|| vec![PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion })])
}

/// The escrow was not reassigned, and will not be.
pub(super) fn give_up(payment: &Payment, at: Timestamp) -> Decided {
    let is_due = matches!(payment.stage(), Stage::Reopened | Stage::Reawarded | Stage::Reassigning);
    let why = "and the escrow could not be reassigned to another in time";
    is_due.then(|| not_reassigned(payment, why, at).into_iter().collect())
}

/// The journal does not know whether the escrow was reassigned, and to whom: another settler may deliver, or have delivered.
pub(super) fn forgo(payment: &Payment, at: Timestamp) -> Decided {
    let message = "the settler did not deliver before the time that it promised, and the gateway does not know whether the escrow \
                   was reassigned; another settler may have delivered and be paid, otherwise the escrow is returned";
    let failure = failure(message.to_owned(), Domain::PaymentGateway, RetryClassification::ReconcileThenDecide);
    let refund = match payment.stage() {
        Stage::Reopened | Stage::Reawarded | Stage::Reassigning => {
            return failed(payment, failure, at).map(|failed| vec![failed]);
        }
        // Nobody has a word that returns what is reserved for a settler that the journal does not know.
        Stage::Secured | Stage::Finalizing => RefundDue::AfterWindow,
        _ => return None,
    };
    Some(vec![PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at }))])
}

/// The failure of a payment for which nobody delivers in the place of the one that did not.
pub(super) fn not_reassigned(payment: &Payment, why: &str, at: Timestamp) -> Option<PaymentEvent> {
    let message =
        format!("the settler did not deliver before the time that it promised, {why}; the escrow is returned");
    failed(payment, failure(message, Domain::SettlerAgent, RetryClassification::RetryWithNewRequestId), at)
}

fn failure(message: String, domain: Domain, classification: RetryClassification) -> Failure {
    Failure {
        code: Failure::SETTLEMENT_FAILED.to_owned(),
        message,
        domain: Some(domain),
        retry_classification: Some(classification),
        blockchain_context: None,
    }
}

/// The money goes back by the word that the reservation on chain was not delivered for.
fn failed(payment: &Payment, failure: Failure, at: Timestamp) -> Option<PaymentEvent> {
    let attestation = payment.reopened()?.event.attestation.clone();
    let refund = RefundDue::ByNonDelivery { attestation };
    Some(PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at })))
}
