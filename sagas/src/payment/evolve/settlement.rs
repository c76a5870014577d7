//! The fold of the delivery: seen, attested or not, confirmed, and failure while money is in escrow.

use events::{
    Failure,
    event::{AttestationAwaited, Failed, FulfillmentConfirmed, FulfillmentSeen, RefundDue},
};

use super::{Followed, NOT_LEGAL};
use crate::payment::{Payment, Stage};

pub(super) fn seen(payment: &mut Payment, stage: Stage, seen: &FulfillmentSeen) -> Followed {
    if !matches!(stage, Stage::Secured | Stage::Finalizing) {
        return Err(NOT_LEGAL);
    }
    payment.seen = Some(seen.inclusion.clone());
    payment.unattested = false;
    Ok(())
}

pub(super) fn attestation_awaited(payment: &mut Payment, stage: Stage, awaited: &AttestationAwaited) -> Followed {
    if stage != Stage::Finalizing || payment.unattested {
        return Err(NOT_LEGAL);
    }
    if payment.seen.as_ref() != Some(&awaited.inclusion) {
        return Err("the attestation is awaited of a delivery that was seen elsewhere".into());
    }
    payment.unattested = true;
    Ok(())
}

pub(super) fn confirmed(payment: &mut Payment, stage: Stage, confirmed: &FulfillmentConfirmed) -> Followed {
    if stage != Stage::Finalizing {
        return Err(NOT_LEGAL);
    }
    payment.confirmed = Some(Box::new(confirmed.clone()));
    payment.unattested = false;
    Ok(())
}

/// A failure while money is in escrow.
pub(super) fn failed(payment: &mut Payment, failed: &Failed) -> Followed {
    if failed.refund == RefundDue::Nothing {
        return Err("money is in escrow and must be returned".into());
    }
    if failed.failure.code == Failure::DELIVERED_NOT_ATTESTED && !payment.unattested {
        return Err("no settled delivery is on record whose attestation is missing".into());
    }
    payment.failed = Some(Box::new(failed.clone()));
    Ok(())
}
