//! Addresses of merchants' offers: what a buyer sends there goes into an escrow under the offer, with the reserver's admission, or to
//! the merchant, and nowhere else, whoever asks.
//!
//! One address serves all buyers, so its token account stays open. Between a buyer's transfer and the deposit the money lies there:
//! only merchant and reserver may collect it, or a stranger could spoil every purchase.

use gateway_program::{
    GatewayError, Key, ZERO_KEY, ids,
    instruction::{Collect, CollectLamports, DepositFromOffer},
    log::{self, OFFER_SAID},
    message::Offer,
    rules, seeds,
};
use pinocchio::{AccountView, Address};

use crate::{
    account::{key, require_key, require_signer, require_writable},
    failure::{Result, require},
    lock::{AT, Accounts, Incoming, Lock},
    own::{Committed, Own},
    runtime,
    token::{Token, Transfer},
};

/// Locks what a buyer paid for a settler: deposit and reservation in one, as if the merchant had signed the terms that the purchase
/// makes of the offer.
#[inline(never)]
pub fn deposit(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let accounts: &Accounts = accounts.try_into().map_err(|_| GatewayError::AccountsInvalid)?;
    let call = DepositFromOffer::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    let own = own(program_id, &accounts[AT], &call.offer)?;
    let terms = call.terms();
    let lock = Lock::judge(program_id, accounts, Incoming { own, terms: &terms, reservation: &call.reservation })?;
    rules::purchase(&call, lock.now.unix_seconds)?;
    lock.carry_out(program_id)?;
    runtime::say(OFFER_SAID);
    Ok(())
}

/// Gives the merchant so much of what is in a token account of the address, of any token.
#[inline(never)]
pub fn collect(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [authority, at, from, to, mint, token_program] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let Collect { offer, amount } = Collect::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    require_writable(&[from, to])?;
    require_collector(authority, &offer)?;
    let own = own(program_id, at, &offer)?;
    require(amount > 0, GatewayError::AmountZero)?;
    // The mint is not judged: whatever became of it, the money goes out.
    let token = Token::known(token_program, mint)?;
    // Where the merchant signs, it may be any account of the token: one whose account is frozen or was given away can still get out.
    // None of the address itself: that would look like a collection and be none.
    if *key(authority) == offer.merchant {
        require(token.account(to)?.owner != *key(at), GatewayError::TokenOwnerMismatch)?;
    } else {
        token.require_associated(to, &offer.merchant)?;
    }
    let held = token.account(from)?;
    require(held.owner == *key(at), GatewayError::TokenOwnerMismatch)?;
    require(held.amount >= amount, GatewayError::BalanceTooSmall)?;
    own.give(&token, &Transfer { from, to, authority: at, amount })?;
    log_collected(&offer, key(at), key(mint), amount);
    Ok(())
}

/// Gives the merchant the native SOL at the address, all of it.
#[inline(never)]
pub fn collect_lamports(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [authority, at, merchant, system] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let CollectLamports { offer } = CollectLamports::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    require_writable(&[at, merchant])?;
    require_key(system, &ids::SYSTEM_PROGRAM, GatewayError::SystemProgramInvalid)?;
    require_collector(authority, &offer)?;
    require_key(merchant, &offer.merchant, GatewayError::TokenOwnerMismatch)?;
    let own = own(program_id, at, &offer)?;
    let amount = at.lamports();
    require(amount > 0, GatewayError::AmountZero)?;
    own.give_lamports(merchant, amount)?;
    log_collected(&offer, key(at), &ZERO_KEY, amount);
    Ok(())
}

/// Merchant or reserver, as the offer has them, must sign.
fn require_collector(authority: &AccountView, offer: &Offer) -> Result {
    require_signer(authority)?;
    require([&offer.merchant, &offer.reserver].contains(&key(authority)), GatewayError::CollectorMismatch)
}

/// # Errors
/// When `at` is not the address of `offer`.
#[inline(never)]
fn own<'a>(program_id: &Address, at: &'a AccountView, offer: &Offer) -> Result<Own<'a>> {
    let bytes = offer.to_bytes();
    let (preimage, mismatch) = (Offer::address_preimage(&bytes), GatewayError::OfferAddressInvalid);
    Own::find(program_id, at, &Committed { seed: seeds::OFFER, preimage, mismatch })
}

#[inline(never)]
fn log_collected(offer: &Offer, at: &Key, mint: &Key, amount: u64) {
    let line = log::Collected { mint: *mint, merchant: offer.merchant, address: *at, amount };
    runtime::log(&line.to_bytes());
}
