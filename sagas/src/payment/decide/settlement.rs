//! Decisions about the delivery and its attestation.

use events::{
    Failure, PaymentEvent,
    event::{AttestationAwaited, Failed, FulfillmentConfirmed, FulfillmentSeen, Inclusion, RefundDue},
    failure::{BlockchainContext, Domain, RetryClassification},
    time::Timestamp,
};

use super::Decided;
use crate::payment::{Payment, Stage};

/// Whether the delivery is still to be decided.
fn is_open(payment: &Payment) -> bool {
    matches!(payment.stage(), Stage::Secured | Stage::Finalizing)
}

/// The delivery was seen, or has moved to another block.
pub(super) fn observe_delivery(payment: &Payment, inclusion: Inclusion) -> Decided {
    match payment.stage() {
        Stage::Secured | Stage::Finalizing if payment.seen.as_ref() != Some(&inclusion) => {
            Some(vec![PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion })])
        }
        Stage::Finalizing => Some(Vec::new()),
        _ => None,
    }
}

/// The delivery has its depth, and the verifier has not attested it so far.
pub(super) fn await_attestation(payment: &Payment, inclusion: Inclusion, at: Timestamp) -> Decided {
    is_open(payment).then(|| unattested(payment, inclusion, at))
}

/// The delivery has its depth and the verifier attested it.
pub(super) fn confirm(
    payment: &Payment,
    inclusion: Inclusion,
    attestation: String,
    at: Timestamp,
    release_from: Timestamp,
) -> Decided {
    if !is_open(payment) {
        return None;
    }
    let mut events = seen_there(payment, &inclusion);
    let release_from = Some(release_from);
    let confirmed = FulfillmentConfirmed { inclusion, attestation, confirmed_at: at, release_from };
    events.push(PaymentEvent::FulfillmentConfirmed(confirmed));
    Some(events)
}

/// No delivery was made, and none can be made any more.
pub(super) fn fail_undelivered(payment: &Payment, attestation: Option<String>, at: Timestamp) -> Decided {
    if !is_open(payment) {
        return None;
    }
    let refund = match attestation {
        Some(attestation) => RefundDue::ByNonDelivery { attestation },
        None => RefundDue::AfterWindow,
    };
    let failure = Failure {
        code: Failure::SETTLEMENT_FAILED.to_owned(),
        message: "the settler did not deliver before the deadline; the escrow is returned".to_owned(),
        domain: Some(Domain::SettlerAgent),
        retry_classification: Some(RetryClassification::RetryWithNewRequestId),
        blockchain_context: undeliverable(payment),
    };
    Some(vec![PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at }))])
}

/// The delivery was not attested before the refund window opened.
pub(super) fn fail_unattested(payment: &Payment, inclusion: Inclusion, at: Timestamp) -> Decided {
    if !is_open(payment) {
        return None;
    }
    let failed = delivered_not_attested(payment, &inclusion, at);
    let mut events = unattested(payment, inclusion, at);
    events.push(failed);
    Some(events)
}

/// The delivery as it is recorded before what follows from it: again where it is deep at first sight, or has moved to another
/// block since it was seen.
fn seen_there(payment: &Payment, inclusion: &Inclusion) -> Vec<PaymentEvent> {
    match payment.seen.as_ref() == Some(inclusion) {
        true => Vec::new(),
        false => vec![PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion.clone() })],
    }
}

/// The delivery is for good where it is, and not attested; nothing where that is recorded.
fn unattested(payment: &Payment, inclusion: Inclusion, at: Timestamp) -> Vec<PaymentEvent> {
    let mut events = seen_there(payment, &inclusion);
    if !payment.unattested || !events.is_empty() {
        events.push(PaymentEvent::AttestationAwaited(AttestationAwaited { inclusion, awaited_at: at }));
    }
    events
}

/// The recipient was paid, and the payer gets the money back. The reason says so: whoever ships twice, or pays again, for a
/// plain failure would be cheated.
fn delivered_not_attested(payment: &Payment, inclusion: &Inclusion, at: Timestamp) -> PaymentEvent {
    let verifier = &payment.submitted.verifier;
    let failure = Failure {
        code: Failure::DELIVERED_NOT_ATTESTED.to_owned(),
        message: format!(
            "the delivery was made and is final ({} on {}), but the fulfillment verifier {} at {} did not attest it before \
             the refund window opened, so the settler cannot be paid and the escrow is returned",
            inclusion.transaction_hash, inclusion.chain_id, verifier.account, verifier.endpoint
        ),
        domain: Some(Domain::VerificationService),
        retry_classification: Some(RetryClassification::ReconcileThenDecide),
        blockchain_context: undeliverable(payment).map(|context| BlockchainContext {
            transaction_hash: Some(inclusion.transaction_hash.clone()),
            block_number: Some(inclusion.block_number),
            ..context
        }),
    };
    PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::AfterWindow, failed_at: at }))
}

/// Where the delivery was expected; with its transaction when one was seen that did not last.
fn undeliverable(payment: &Payment) -> Option<BlockchainContext> {
    let quote = &payment.award.as_ref()?.quote;
    Some(BlockchainContext {
        chain_id: quote.destination.asset().chain().clone(),
        transaction_hash: payment.seen.as_ref().map(|seen| seen.transaction_hash.clone()),
        block_number: payment.seen.as_ref().map(|seen| seen.block_number),
        contract_address: Some(quote.fulfillment_proxy.to_string()),
        revert_reason: None,
        gas_used: None,
        estimated_gas_needed: None,
    })
}
