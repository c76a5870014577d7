//! The program's rules that need nothing but numbers, so that others can judge before they send.

use crate::{GatewayError, Key, ZERO_KEY, instruction::DepositAndReserve};

/// How long after its last window a record is kept at least: 30 days.
pub const RECLAIM_DELAY_SECONDS: u64 = 30 * 24 * 60 * 60;

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
    if d.source_amount == 0 {
        return Err(GatewayError::AmountZero);
    }
    if d.settler == ZERO_KEY {
        return Err(GatewayError::SettlerInvalid);
    }
    if d.fulfill_by <= now {
        return Err(GatewayError::FulfillByPassed);
    }
    if d.fulfill_by > d.fulfillment_deadline {
        return Err(GatewayError::FulfillByTooLate);
    }
    Ok(())
}

/// First second in which a record may be closed whose last window ended at `end`.
pub fn reclaim_from(end: u64) -> u64 {
    end.saturating_add(RECLAIM_DELAY_SECONDS)
}
