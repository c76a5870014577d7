//! The program's rules that need nothing but numbers, so that others can judge before they send.

use crate::{
    GatewayError, Key, ZERO_KEY,
    account::{Escrow, State},
    instruction::{DepositAndReserve, DepositFromOffer, Reassign},
};

/// How long after its last window a record is kept at least: 30 days.
pub const RECLAIM_DELAY_SECONDS: u64 = 30 * 24 * 60 * 60;
/// Most seconds by which a purchase's `reserve_deadline` may be ahead of the cluster's clock: ten minutes. Delivery and refund are counted
/// from there, so a longer bound would let whoever has a stolen reserver lock a merchant's money for longer (ADR 160).
pub const RESERVE_AHEAD_SECONDS_MAX: u64 = 600;

/// Judges a deposit at the time `now`, in the order of `GatewayEscrow.sol`. `reserver` is the one who signs the
/// transaction, `admitted` the program's own.
///
/// # Errors
/// The first rule that is broken.
pub fn deposit(d: &DepositAndReserve, reserver: &Key, admitted: &Key, now: u64) -> Result<(), GatewayError> {
    if d.agreed_quote_hash != [0; 32] && d.agreed_quote_hash != d.quote_hash {
        return Err(GatewayError::QuoteHashMismatch);
    }
    if d.source_amount > d.cap {
        return Err(GatewayError::AmountAboveCap);
    }
    if d.payer == ZERO_KEY {
        return Err(GatewayError::PayerMissing);
    }
    if reserver != admitted {
        return Err(GatewayError::ReserverNotAdmitted);
    }
    if d.releaser == ZERO_KEY {
        return Err(GatewayError::ReleaserMissing);
    }
    if now > d.reserve_deadline {
        return Err(GatewayError::ReserveWindowClosed);
    }
    if d.reserve_deadline > d.fulfillment_deadline || d.fulfillment_deadline >= d.refund_after {
        return Err(GatewayError::WindowsOutOfOrder);
    }
    reservation(d.source_amount, &d.settler, d.fulfill_by, d.fulfillment_deadline, now)
}

/// Judges at the time `now` what a purchase of an offer has to keep beyond [`deposit`]: exactly the offer's amount is deposited, and
/// `reserve_deadline` is at most [`RESERVE_AHEAD_SECONDS_MAX`] ahead (ADR 160).
///
/// # Errors
/// The first rule that is broken: [`GatewayError::DepositNotExact`], then [`GatewayError::ReserveDeadlineTooFar`].
pub fn purchase(call: &DepositFromOffer, now: u64) -> Result<(), GatewayError> {
    if call.reservation.deposited != call.offer.amount {
        return Err(GatewayError::DepositNotExact);
    }
    if call.purchase.reserve_deadline > now.saturating_add(RESERVE_AHEAD_SECONDS_MAX) {
        return Err(GatewayError::ReserveDeadlineTooFar);
    }
    Ok(())
}

/// Judges the reassignment of `escrow` at the time `now`, in the order of `GatewayEscrow.sol`. `reserver` is the one who signs the
/// transaction. The releaser's word is not judged here.
///
/// # Errors
/// The first rule that is broken.
pub fn reassignment(escrow: &Escrow, r: &Reassign, reserver: &Key, now: u64) -> Result<(), GatewayError> {
    if escrow.state() != Some(State::Reserved) {
        return Err(GatewayError::StateNotAllowed);
    }
    if r.previous_quote_hash != escrow.quote_hash {
        return Err(GatewayError::ReservationMismatch);
    }
    if *reserver != escrow.reserver {
        return Err(GatewayError::ReserverNotAdmitted);
    }
    if !escrow.takes_any_quote() {
        return Err(GatewayError::QuoteHashMismatch);
    }
    if now <= escrow.fulfill_by {
        return Err(GatewayError::ReservationNotOver);
    }
    if r.quote_hash == escrow.quote_hash {
        return Err(GatewayError::QuoteNotAnother);
    }
    if r.source_amount > escrow.deposited {
        return Err(GatewayError::AmountAboveCap);
    }
    reservation(r.source_amount, &r.settler, r.fulfill_by, escrow.fulfillment_deadline, now)
}

/// What holds for every reservation.
fn reservation(
    source_amount: u64,
    settler: &Key,
    fulfill_by: u64,
    fulfillment_deadline: u64,
    now: u64,
) -> Result<(), GatewayError> {
    if source_amount == 0 {
        return Err(GatewayError::AmountZero);
    }
    if *settler == ZERO_KEY {
        return Err(GatewayError::SettlerInvalid);
    }
    if fulfill_by <= now {
        return Err(GatewayError::FulfillByPassed);
    }
    if fulfill_by > fulfillment_deadline {
        return Err(GatewayError::FulfillByTooLate);
    }
    Ok(())
}

/// First second in which a record may be closed whose last window ended at `end`.
pub fn reclaim_from(end: u64) -> u64 {
    end.saturating_add(RECLAIM_DELAY_SECONDS)
}
