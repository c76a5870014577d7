//! Deposit addresses: whoever sends a payment's money there has made the deposit. It goes into that payment's escrow, with the
//! reserver's admission, or back to the payer, and nowhere else, whoever asks.
//!
//! An address has no account of its own. What is of a token lies in token accounts that it owns, what is of native SOL at the address
//! itself. The rent of a token account that is emptied goes to who carries the money.

use gateway_program::{
    GatewayError, Hash, ids,
    instruction::{DepositFromAddress, GiveBack, terms_of_lamports},
    log::{self, GIVE_BACK_SAID},
    message::Deposit,
    rules, seeds,
};
use pinocchio::{
    AccountView, Address,
    cpi::{Seed, Signer},
};

use crate::{
    account::{self, config, is_unused, key, require_key, require_signer, require_writable},
    deposit::{Entry, Made},
    failure::{Result, require},
    runtime::{self, Now},
    token::{Token, Transfer},
};

/// Locks what came to the address for a settler: deposit and reservation in one, as if the payer had signed the terms.
#[inline(never)]
pub fn deposit(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [rent_payer, reserver, config_account, escrow, vault, from, at, mint, token_program, system] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let call = DepositFromAddress::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    require_signer(rent_payer)?;
    require_signer(reserver)?;
    require_writable(&[rent_payer, escrow, vault, from])?;
    require_key(system, &ids::SYSTEM_PROGRAM, GatewayError::SystemProgramInvalid)?;
    let config = config(program_id, config_account)?;
    let terms = call.as_signed();
    let made = Made::find(program_id, &[escrow, vault, rent_payer], &terms.payment_id)?;
    let own = Own::find(program_id, at, &call.terms)?;

    let now = Now::get()?;
    rules::deposit(&terms, key(reserver), &config.reserver, now.unix_seconds)?;
    require(call.terms.reserver == config.reserver, GatewayError::ReserverNotAdmitted)?;
    let deposited = call.reservation.deposited;
    require(deposited >= terms.cap, GatewayError::DepositTooSmall)?;
    let gateways = [program_id.as_array(), key(escrow), key(vault), key(config_account), key(at)];
    require(!gateways.contains(&&terms.settler), GatewayError::SettlerInvalid)?;

    require_key(mint, &call.terms.mint, GatewayError::MintInvalid)?;
    let token = Token::judge(token_program, mint)?;
    token.require_associated(from, key(at))?;
    require(token.account(from)?.amount >= deposited, GatewayError::BalanceTooSmall)?;
    made.make_vault(&token, &terms.payment_id)?;
    let transfer = Transfer { from, to: vault, authority: at, amount: deposited };
    own.move_exactly(&token, &transfer)?;
    made.make_escrow(program_id, &terms.payment_id)?;
    made.write(&terms, &token, key(reserver), &Entry { deposited, slot: now.slot })?;
    // What a stranger adds must not stand in the way of the deposit.
    if token.account(from)?.amount == 0 {
        own.close(&token, from, rent_payer)?;
    }
    Ok(())
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
    let own = Own::find(program_id, at, &terms)?;
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
    let own = Own::find(program_id, at, &terms)?;
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

/// The address of terms, and what it signs with.
struct Own<'a> {
    at: &'a AccountView,
    hash: Hash,
    bump: u8,
}

impl<'a> Own<'a> {
    /// # Errors
    /// When `at` is not the address of `terms`.
    #[inline(never)]
    fn find(program_id: &Address, at: &'a AccountView, terms: &Deposit) -> Result<Self> {
        let hash = runtime::sha256(&Deposit::address_preimage(&terms.to_bytes()));
        let (expected, bump) = runtime::find_address(&[seeds::ADDRESS, &hash], program_id.as_array())?;
        require(at.address() == &expected, GatewayError::DepositAddressInvalid)?;
        Ok(Self { at, hash, bump })
    }

    fn signed(&self, act: impl FnOnce(&[Signer]) -> Result) -> Result {
        let bump = [self.bump];
        let seeds = [Seed::from(seeds::ADDRESS), Seed::from(&self.hash), Seed::from(&bump)];
        act(&[Signer::from(&seeds)])
    }

    #[inline(never)]
    fn move_exactly(&self, token: &Token, transfer: &Transfer) -> Result {
        self.signed(|signer| token.transfer_exactly(transfer, GatewayError::ReceivedNotExact, signer))
    }

    #[inline(never)]
    fn give(&self, token: &Token, transfer: &Transfer) -> Result {
        self.signed(|signer| token.transfer(transfer, signer))
    }

    #[inline(never)]
    fn give_lamports(&self, payer: &AccountView, amount: u64) -> Result {
        self.signed(|signer| account::transfer_native_by(self.at, payer, amount, signer))
    }

    /// Closes a token account of the address that is empty. One of wrapped SOL stays: it may hold lamports that nobody has counted as
    /// tokens yet, and they would go with the rent.
    #[inline(never)]
    fn close(&self, token: &Token, account: &AccountView, to: &AccountView) -> Result {
        if [ids::NATIVE_MINT, ids::NATIVE_MINT_2022].contains(key(token.mint)) {
            return Ok(());
        }
        self.signed(|signer| token.close(account, to, self.at, signer))
    }
}

#[inline(never)]
fn log_given_back(terms: &Deposit, mint: &gateway_program::Key, amount: u64) {
    let line = log::GivenBack { payment_id: terms.payment_id, payer: terms.payer, mint: *mint, amount };
    runtime::log(&line.to_bytes());
    runtime::say(GIVE_BACK_SAID);
}
