//! Addresses of merchants' offers (ADR 160): stock clients of x402 pay to them. An address is the escrow's program's, and commits to the
//! whole offer, so that what comes there is deposited under it or is the merchant's.
//!
//! The source of such a payment is the merchant's account on the cluster, which has whatever is not delivered. So its terms are the same
//! whoever buys, and one address serves all who do.

use gateway_program::{host, message::Offer};

use super::program::{ConvertError, account, key, mint, text, units};
use chains::offer::Commitment;
use events::{
    Account, Terms,
    event::{EscrowPlan, SolanaPurchase},
};

/// Most seconds from a purchase to the last one of its deposit. The program takes ten minutes by the cluster's clock, which may be behind.
pub const RESERVE_SECONDS_MAX: u64 = gateway_program::rules::RESERVE_AHEAD_SECONDS_MAX - 60;

/// The offer that a payment with these terms, escrow and purchase is made under. Its merchant is the account of the source.
pub fn of_purchase<'a>(terms: &'a Terms, plan: &'a EscrowPlan, purchase: &SolanaPurchase) -> Commitment<'a> {
    Commitment {
        terms,
        amount: purchase.amount,
        escrow: &plan.contract,
        reserver: &plan.reserver,
        releaser: &plan.releaser,
        merchant: terms.source.account(),
        delivery_seconds: purchase.delivery_seconds,
        refund_seconds: purchase.refund_seconds,
    }
}

/// The same as the program takes it.
///
/// # Errors
/// [`ConvertError`] for what fits no Solana chain.
pub fn offer(commitment: &Commitment<'_>) -> Result<Offer, ConvertError> {
    Ok(Offer {
        terms_hash: commitment.terms.hash().0,
        merchant: key(commitment.merchant)?,
        mint: mint(commitment.terms.source.asset())?,
        amount: units(commitment.amount)?,
        reserver: key(commitment.reserver)?,
        releaser: key(commitment.releaser)?,
        delivery_seconds: commitment.delivery_seconds.into(),
        refund_seconds: commitment.refund_seconds.into(),
    })
}

/// The address.
///
/// # Errors
/// [`ConvertError`] for what fits no Solana chain.
pub fn address_of(commitment: &Commitment<'_>) -> Result<Account, ConvertError> {
    let at = host::offer_address(&key(commitment.escrow)?, &offer(commitment)?).key;
    account(&at).ok_or_else(|| ConvertError::Account(text(&at)))
}
