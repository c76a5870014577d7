//! The fold of the reassignment: the reservation that lapsed, the attempts at another, and what the escrow is reserved for then.

use events::{
    event::{EscrowReassigned, Failed, RefundDue, ReservationLapsed, TransactionAbandoned, TransactionPrepared},
    mutant,
};

use super::{Followed, NOT_LEGAL, settlement::are_enough};
use crate::payment::{Awarded, LapsedReservation, Payment, REASSIGNMENT_ATTEMPTS_MAX, Stage};

/// Nobody can deliver any more for the reservation that the escrow holds. The payment is where it was when it was secured, but for
/// the winner.
pub(super) fn lapsed(payment: &mut Payment, stage: Stage, lapsed: &ReservationLapsed) -> Followed {
    if !matches!(stage, Stage::Secured | Stage::Finalizing) {
        return Err(NOT_LEGAL);
    }
    if !payment.may_reopen(lapsed.lapsed_at, lapsed.quote_deadline) {
        return Err("the payer chose the quote, or no time or attempt is left for another".into());
    }
    if !are_enough(&payment.nondelivery_by, &payment.submitted.verifier) {
        return Err("the non-delivery is attested by fewer members of the verifier set than its threshold".into());
    }
    let is_its = |award: &Awarded| award.event.quote_hash == lapsed.quote_hash && award.quote.settler == lapsed.settler;
    let Some(award) = payment.award.take_if(|award| is_its(award)) else {
        return Err("the escrow is reserved for another quote".into());
    };
    let nondelivery_by = match mutant!("round-keeps-attestations") {
        true => payment.nondelivery_by.clone(),
        false => std::mem::take(&mut payment.nondelivery_by),
    };
    payment.lapsed_reservations.push(LapsedReservation {
        event: lapsed.clone(),
        award,
        nondelivery_by,
        attempts_before: payment.reassignment.count,
    });
    payment.is_reopened = true;
    payment.auction = None;
    payment.alternates = Vec::new();
    payment.lapsed = Vec::new();
    payment.seen = None;
    payment.attested_by = Vec::new();
    payment.attestation_awaited = false;
    Ok(())
}

pub(super) fn prepared(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if stage != Stage::Reawarded {
        return Err(NOT_LEGAL);
    }
    if payment.reassignment.count >= REASSIGNMENT_ATTEMPTS_MAX {
        return Err("the escrow was tried to be reassigned as often as is allowed".into());
    }
    payment.reassignment.begin(transaction)?;
    payment.alternates = Vec::new();
    Ok(())
}

pub(super) fn repriced(payment: &mut Payment, stage: Stage, transaction: &TransactionPrepared) -> Followed {
    if stage != Stage::Reassigning {
        return Err(NOT_LEGAL);
    }
    Ok(payment.reassignment.replace(transaction)?)
}

pub(super) fn abandoned(payment: &mut Payment, stage: Stage, abandoned: &TransactionAbandoned) -> Followed {
    if stage != Stage::Reassigning {
        return Err(NOT_LEGAL);
    }
    Ok(payment.reassignment.give_up(abandoned)?)
}

/// The escrow is reserved for the new winner, whoever's transaction did it.
pub(super) fn reassigned(payment: &mut Payment, stage: Stage, reassigned: &EscrowReassigned) -> Followed {
    if !matches!(stage, Stage::Reawarded | Stage::Reassigning) {
        return Err(NOT_LEGAL);
    }
    payment.reassigned = Some(reassigned.inclusion.clone());
    payment.is_reopened = false;
    payment.reassignment.live = Vec::new();
    payment.alternates = Vec::new();
    Ok(())
}

/// Nobody delivers in the place of the one that did not: the money goes back by the word that it did not.
pub(super) fn failed(payment: &mut Payment, failed: &Failed) -> Followed {
    let Some(lapsed) = payment.reopened() else { return Err(NOT_LEGAL) };
    let RefundDue::ByNonDelivery { attestation } = &failed.refund else {
        return Err("money is in escrow and is returned by the non-delivery on record".into());
    };
    if *attestation != lapsed.event.attestation {
        return Err("the non-delivery is another than the one on record".into());
    }
    payment.alternates = Vec::new();
    payment.failed = Some(Box::new(failed.clone()));
    Ok(())
}
