//! Deposit addresses: whoever sends a payment's money there has made the deposit. It goes into that payment's escrow, with the
//! reserver's admission, or back to the payer, and nowhere else, whoever asks.
//!
//! An address has no account of its own. What is of a token lies in token accounts that it owns, what is of native SOL at the address
//! itself. The rent of a token account that is emptied goes to who carries the money.

use gateway_program::{
    GatewayError, ids,
    instruction::{DepositFromAddress, GiveBack, terms_of_lamports},
    log::{self, GIVE_BACK_SAID},
    message::Deposit,
    seeds,
};
use pinocchio::{AccountView, Address};

use crate::{
    account::{is_unused, key, require_key, require_writable},
    failure::{Result, require},
    lock::{AT, Accounts, Incoming, Lock},
    own::{Committed, Own},
    runtime::{self, Now},
    token::{Token, Transfer},
};

/// Locks what came to the address for a settler: deposit and reservation in one, as if the payer had signed the terms.
#[inline(never)]
pub fn deposit(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let accounts: &Accounts = accounts.try_into().map_err(|_| GatewayError::AccountsInvalid)?;
    let DepositFromAddress { terms, reservation } =
        DepositFromAddress::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    let own = own(program_id, &accounts[AT], &terms)?;
    let lock = Lock::judge(program_id, accounts, Incoming { own, terms: &terms, reservation: &reservation })?;
    require(reservation.deposited >= terms.amount, GatewayError::DepositTooSmall)?;
    lock.carry_out(program_id)?;
    // What a stranger adds must not stand in the way of the deposit.
    lock.close_emptied()
}

/// Gives the payer all that is in a token account of the address: of the payment's token once no deposit can be made of it, of any other
/// at any time. Open to everyone.
#[inline(never)]
pub fn give_back(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [carrier, escrow, at, from, to, payer, mint, token_program] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let GiveBack { terms, closes } = GiveBack::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    require_writable(&[carrier, from, to])?;
    // A program cannot be paid.
    require(!carrier.executable(), GatewayError::RecipientInvalid)?;
    let own = own(program_id, at, &terms)?;
    if terms.mint == *key(mint) {
        require_no_deposit(program_id, escrow, &terms)?;
    }
    require_key(payer, &terms.payer, GatewayError::TokenOwnerMismatch)?;
    // The mint is not judged: whatever became of it, the money goes out.
    let token = Token::known(token_program, mint)?;
    // Where the payer signs, it may be any account of the token: one whose account is frozen or was given away can still get out.
    // None of the address itself: that would look like a return and be none.
    if payer.is_signer() {
        require(token.account(to)?.owner != *key(at), GatewayError::TokenOwnerMismatch)?;
    } else {
        token.require_associated(to, &terms.payer)?;
    }
    let held = token.account(from)?;
    require(held.owner == *key(at), GatewayError::TokenOwnerMismatch)?;
    require(held.amount > 0 || closes, GatewayError::NothingToGiveBack)?;
    if held.amount > 0 {
        let transfer = Transfer { from, to, authority: at, amount: held.amount };
        own.give(&token, &transfer)?;
        log_given_back(&terms, key(mint), held.amount);
    }
    if closes {
        own.close(&token, from, carrier)?;
    }
    Ok(())
}

/// Gives the payer the native SOL at the address. Open to everyone, at any time.
#[inline(never)]
pub fn give_back_lamports(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [at, payer, system] = accounts else { return Err(GatewayError::AccountsInvalid.into()) };
    let terms = terms_of_lamports(data).ok_or(GatewayError::InstructionInvalid)?;
    require_writable(&[at, payer])?;
    require_key(system, &ids::SYSTEM_PROGRAM, GatewayError::SystemProgramInvalid)?;
    require_key(payer, &terms.payer, GatewayError::TokenOwnerMismatch)?;
    let own = own(program_id, at, &terms)?;
    let amount = at.lamports();
    require(amount > 0, GatewayError::NothingToGiveBack)?;
    own.give_lamports(payer, amount)?;
    log_given_back(&terms, &gateway_program::ZERO_KEY, amount);
    Ok(())
}

/// Past `reserve_deadline` the escrow takes no deposit, and beside a record of the payment it takes no other.
#[inline(never)]
fn require_no_deposit(program_id: &Address, escrow: &AccountView, terms: &Deposit) -> Result {
    let seeds: [&[u8]; 2] = [seeds::ESCROW, &terms.payment_id];
    let (expected, _) = runtime::find_address(&seeds, program_id.as_array())?;
    require(escrow.address() == &expected, GatewayError::EscrowInvalid)?;
    let is_over = !is_unused(escrow) || Now::get()?.unix_seconds > terms.reserve_deadline;
    require(is_over, GatewayError::GiveBackTooEarly)
}

/// # Errors
/// When `at` is not the address of `terms`.
#[inline(never)]
fn own<'a>(program_id: &Address, at: &'a AccountView, terms: &Deposit) -> Result<Own<'a>> {
    let bytes = terms.to_bytes();
    let (preimage, mismatch) = (Deposit::address_preimage(&bytes), GatewayError::DepositAddressInvalid);
    Own::find(program_id, at, &Committed { seed: seeds::ADDRESS, preimage, mismatch })
}

#[inline(never)]
fn log_given_back(terms: &Deposit, mint: &gateway_program::Key, amount: u64) {
    let line = log::GivenBack { payment_id: terms.payment_id, payer: terms.payer, mint: *mint, amount };
    runtime::log(&line.to_bytes());
    runtime::say(GIVE_BACK_SAID);
}
