//! The fold of the delivery: seen, at its depth, attested or not, and failure while money is in escrow.

use events::{
    Failure,
    event::{
        AttestationAwaited, Failed, FulfillmentConfirmed, FulfillmentFinalized, FulfillmentSeen, MemberAttested,
        RefundDue, VerifierRef,
    },
    mutant,
};

use super::{Followed, NOT_LEGAL};
use crate::payment::{Payment, Stage};

pub(super) fn seen(payment: &mut Payment, stage: Stage, seen: &FulfillmentSeen) -> Followed {
    if !matches!(stage, Stage::Secured | Stage::Finalizing) {
        return Err(NOT_LEGAL);
    }
    payment.seen = Some(seen.inclusion.clone());
    payment.attestation_awaited = false;
    Ok(())
}

/// The delivery has its depth. From here on no failure can follow.
pub(super) fn finalized(payment: &mut Payment, stage: Stage, finalized: &FulfillmentFinalized) -> Followed {
    if stage != Stage::Finalizing {
        return Err(NOT_LEGAL);
    }
    if payment.seen.as_ref() != Some(&finalized.inclusion) {
        return Err("the delivery that has its depth was seen elsewhere".into());
    }
    payment.finalized = Some(Box::new(finalized.clone()));
    Ok(())
}

/// A member of the verifier set attested the delivery.
pub(super) fn attested(payment: &mut Payment, stage: Stage, attested: &MemberAttested) -> Followed {
    if !matches!(stage, Stage::Finalizing | Stage::Attesting) {
        return Err(NOT_LEGAL);
    }
    add(&mut payment.attested_by, &payment.submitted.verifier, attested)
}

/// A member of the verifier set attested that nothing was delivered.
pub(super) fn nondelivery_attested(payment: &mut Payment, stage: Stage, attested: &MemberAttested) -> Followed {
    if !matches!(stage, Stage::Secured | Stage::Finalizing) {
        return Err(NOT_LEGAL);
    }
    add(&mut payment.nondelivery_by, &payment.submitted.verifier, attested)
}

fn add(given: &mut Vec<MemberAttested>, verifier: &VerifierRef, attested: &MemberAttested) -> Followed {
    if verifier.set.as_ref().and_then(|set| set.member(&attested.member)).is_none() {
        return Err("an attestation is on record of who is no member of the payment's verifier set".into());
    }
    if given.iter().any(|known| known.member == attested.member) && !mutant!("member-counted-twice") {
        return Err("a member of the verifier set attested twice".into());
    }
    given.push(attested.clone());
    Ok(())
}

/// Whether as many members have signed as a set's word needs; a single verifier's signature speaks for itself.
pub(super) fn are_enough(given: &[MemberAttested], verifier: &VerifierRef) -> bool {
    verifier.set.as_ref().is_none_or(|set| given.len() >= set.threshold() || mutant!("one-speaks-for-all"))
}

/// In [`Stage::Finalizing`] only gateways from before [`FulfillmentFinalized`] recorded it.
pub(super) fn attestation_awaited(payment: &mut Payment, stage: Stage, awaited: &AttestationAwaited) -> Followed {
    if !matches!(stage, Stage::Finalizing | Stage::Attesting) || payment.attestation_awaited {
        return Err(NOT_LEGAL);
    }
    if payment.seen.as_ref() != Some(&awaited.inclusion) {
        return Err("the attestation is awaited of a delivery that was seen elsewhere".into());
    }
    payment.attestation_awaited = true;
    Ok(())
}

pub(super) fn confirmed(payment: &mut Payment, stage: Stage, confirmed: &FulfillmentConfirmed) -> Followed {
    if !matches!(stage, Stage::Finalizing | Stage::Attesting) {
        return Err(NOT_LEGAL);
    }
    if !are_enough(&payment.attested_by, &payment.submitted.verifier) {
        return Err("the delivery is confirmed by fewer members of the verifier set than its threshold".into());
    }
    payment.confirmed = Some(Box::new(confirmed.clone()));
    payment.attestation_awaited = false;
    Ok(())
}

/// The escrow takes no release any more; what is in it can only go back.
pub(super) fn attestation_missed(payment: &mut Payment, stage: Stage) -> Followed {
    if stage != Stage::Attesting {
        return Err(NOT_LEGAL);
    }
    payment.attestation_missed = true;
    Ok(())
}

/// A failure while money is in escrow. That of a delivery which was not attested is one that older gateways recorded.
pub(super) fn failed(payment: &mut Payment, failed: &Failed) -> Followed {
    if failed.refund == RefundDue::Nothing {
        return Err("money is in escrow and must be returned".into());
    }
    if matches!(failed.refund, RefundDue::ByNonDelivery { .. })
        && !are_enough(&payment.nondelivery_by, &payment.submitted.verifier)
    {
        return Err("the non-delivery is attested by fewer members of the verifier set than its threshold".into());
    }
    if failed.failure.code == Failure::DELIVERED_NOT_ATTESTED && !payment.attestation_awaited {
        return Err("no settled delivery is on record whose attestation is missing".into());
    }
    payment.failed = Some(Box::new(failed.clone()));
    Ok(())
}
