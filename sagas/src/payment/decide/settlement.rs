//! Decisions about the delivery and its attestation.

use events::{
    Failure, PaymentEvent,
    event::{
        AttestationAwaited, AttestationMissed, Failed, FulfillmentConfirmed, FulfillmentFinalized, FulfillmentSeen,
        Inclusion, MemberAttested, RefundDue,
    },
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

/// The delivery has its depth, and the verifier did not attest it at once.
pub(super) fn finalize(payment: &Payment, inclusion: Inclusion, given: Vec<MemberAttested>, at: Timestamp) -> Decided {
    if !is_open(payment) {
        return None;
    }
    let mut events = seen_there(payment, &inclusion);
    events.push(PaymentEvent::FulfillmentFinalized(FulfillmentFinalized { inclusion, finalized_at: at }));
    events.extend(attestations(payment, given));
    Some(events)
}

/// The delivery has had its depth for a while, and the verifier has not attested it so far.
pub(super) fn await_attestation(payment: &Payment, at: Timestamp) -> Decided {
    let finalized = payment.finalized.as_deref().filter(|_| payment.stage() == Stage::Attesting)?;
    if payment.attestation_awaited {
        return Some(Vec::new());
    }
    let inclusion = finalized.inclusion.clone();
    Some(vec![PaymentEvent::AttestationAwaited(AttestationAwaited { inclusion, awaited_at: at })])
}

/// The delivery has its depth and the verifier attested it. Where it had its depth before, it may be in another block since: a
/// depth that is a number of confirmations is not for ever.
pub(super) fn confirm(
    payment: &Payment,
    inclusion: Inclusion,
    given: Vec<MemberAttested>,
    attestation: String,
    at: Timestamp,
    release_from: Timestamp,
) -> Decided {
    let mut events = match payment.stage() {
        Stage::Secured | Stage::Finalizing => seen_there(payment, &inclusion),
        Stage::Attesting if payment.delivery().is_some_and(|at_depth| at_depth.chain_id == inclusion.chain_id) => {
            Vec::new()
        }
        _ => return None,
    };
    events.extend(attestations(payment, given));
    let release_from = Some(release_from);
    let confirmed = FulfillmentConfirmed { inclusion, attestation, confirmed_at: at, release_from };
    events.push(PaymentEvent::FulfillmentConfirmed(confirmed));
    Some(events)
}

/// Members of the verifier set attested the delivery, too few so far.
pub(super) fn record_attestations(payment: &Payment, given: Vec<MemberAttested>) -> Decided {
    matches!(payment.stage(), Stage::Finalizing | Stage::Attesting).then(|| attestations(payment, given).collect())
}

/// Members of the verifier set attested that nothing was delivered, too few so far.
pub(super) fn record_nondeliveries(payment: &Payment, given: Vec<MemberAttested>) -> Decided {
    is_open(payment).then(|| nondeliveries(payment, given).collect())
}

/// The attestations that are not on record.
fn attestations(payment: &Payment, given: Vec<MemberAttested>) -> impl Iterator<Item = PaymentEvent> + use<'_> {
    given.into_iter().filter(|new| !is_on_record(&payment.attested_by, new)).map(PaymentEvent::DeliveryAttested)
}

/// The statements of non-delivery that are not on record.
pub(super) fn nondeliveries(
    payment: &Payment,
    given: Vec<MemberAttested>,
) -> impl Iterator<Item = PaymentEvent> + use<'_> {
    given.into_iter().filter(|new| !is_on_record(&payment.nondelivery_by, new)).map(PaymentEvent::NonDeliveryAttested)
}

fn is_on_record(known: &[MemberAttested], new: &MemberAttested) -> bool {
    known.iter().any(|known| known.member == new.member)
}

/// The delivery was not attested before the refund window opened.
pub(super) fn miss_attestation(payment: &Payment, at: Timestamp) -> Decided {
    let missed = PaymentEvent::AttestationMissed(AttestationMissed { missed_at: at });
    (payment.stage() == Stage::Attesting).then(|| vec![missed])
}

/// No delivery was made, and none can be made any more.
pub(super) fn fail_undelivered(
    payment: &Payment,
    given: Vec<MemberAttested>,
    attestation: Option<String>,
    at: Timestamp,
) -> Decided {
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
    let mut events: Vec<_> = nondeliveries(payment, given).collect();
    events.push(PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at })));
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

/// The delivery that was seen and did not last; nothing where none reached its chain (spec 2.9).
fn undeliverable(payment: &Payment) -> Option<BlockchainContext> {
    let (quote, seen) = (&payment.award.as_ref()?.quote, payment.seen.as_ref()?);
    Some(BlockchainContext {
        chain_id: quote.destination.asset().chain().clone(),
        transaction_hash: Some(seen.transaction_hash.clone()),
        block_number: Some(seen.block_number),
        contract_address: Some(quote.fulfillment_proxy.to_string()),
        revert_reason: None,
        gas_used: None,
        estimated_gas_needed: None,
    })
}
