//! Deposit addresses: what holds of them on every chain (ADR 153).

use events::Amount;
use ruint::aliases::U256;

/// Of less than this part of what was asked for a gateway gives nothing back by itself: it may bring less than its transaction costs.
const GIVEN_BACK_LEAST: u64 = 100;

/// What is held at an address for which `asked` was asked, where it is worth a transaction that gives it back.
pub fn worth_giving_back(held: Option<Amount>, asked: Amount) -> Option<Amount> {
    let least = asked.get() / U256::from(GIVEN_BACK_LEAST);
    held.filter(|amount| amount.get() >= least)
}
