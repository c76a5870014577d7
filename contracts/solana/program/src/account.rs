//! Checks of accounts, and making and closing the program's own.

use gateway_program::{
    GatewayError, Key,
    account::{Config, Escrow},
    ids, seeds,
};
use pinocchio::{
    AccountView, Address,
    cpi::{Signer, invoke_signed},
    instruction::{InstructionAccount, InstructionView},
};

use crate::{
    failure::{Result, require},
    runtime,
};

pub const SYSTEM: Address = Address::new_from_array(ids::SYSTEM_PROGRAM);

/// The account's address as the interface writes it.
pub fn key(account: &AccountView) -> &Key {
    account.address().as_array()
}

/// The address of the program that owns the account.
pub fn owner(account: &AccountView) -> Key {
    // SAFETY: the key is copied at once, before anything could change the owner.
    unsafe { account.owner() }.to_bytes()
}

pub fn require_signer(account: &AccountView) -> Result {
    require(account.is_signer(), GatewayError::SignatureMissing)
}

pub fn require_writable(accounts: &[&AccountView]) -> Result {
    require(accounts.iter().all(|account| account.is_writable()), GatewayError::AccountNotWritable)
}

pub fn require_key(account: &AccountView, expected: &Key, error: GatewayError) -> Result {
    require(key(account) == expected, error)
}

/// The program's configuration, read from its own account.
pub fn config(program_id: &Address, account: &AccountView) -> Result<Config> {
    require(account.owned_by(program_id), GatewayError::ConfigInvalid)?;
    let config = Config::from_bytes(&account.try_borrow()?).ok_or(GatewayError::ConfigInvalid)?;
    let own = runtime::is_address_of(account.address(), &[seeds::CONFIG, &[config.bump]], program_id);
    require(own, GatewayError::ConfigInvalid)?;
    Ok(config)
}

/// An escrow, read from its own account.
#[inline(never)]
pub fn escrow(program_id: &Address, account: &AccountView) -> Result<Escrow> {
    require(account.owned_by(program_id), GatewayError::EscrowInvalid)?;
    let escrow = Escrow::from_bytes(&account.try_borrow()?).ok_or(GatewayError::EscrowInvalid)?;
    let seeds: [&[u8]; 3] = [seeds::ESCROW, &escrow.payment_id, &[escrow.bump]];
    require(runtime::is_address_of(account.address(), &seeds, program_id), GatewayError::EscrowInvalid)?;
    Ok(escrow)
}

/// An account that is to be made.
pub struct Fresh<'a> {
    pub account: &'a AccountView,
    pub size: usize,
    pub owner: &'a Address,
}

/// Makes the account that `signer`'s seeds name. Lamports that somebody sent there before are used, so they do not
/// stand in the way.
#[inline(never)]
pub fn create(payer: &AccountView, fresh: &Fresh, signer: &[Signer]) -> Result {
    const ALLOCATE: u8 = 8;
    const ASSIGN: u8 = 1;

    let Fresh { account, size, owner } = *fresh;
    let missing = runtime::minimum_balance(size)?.saturating_sub(account.lamports());
    if missing > 0 {
        transfer_native(payer, account, missing)?;
    }

    let accounts = [InstructionAccount::writable_signer(account.address())];
    let mut data = [0; 12];
    data[0] = ALLOCATE;
    data[4..].copy_from_slice(&(size as u64).to_le_bytes());
    invoke_signed(&InstructionView { program_id: &SYSTEM, data: &data, accounts: &accounts }, &[account], signer)?;

    let mut data = [0; 36];
    data[0] = ASSIGN;
    data[4..].copy_from_slice(owner.as_array());
    invoke_signed(&InstructionView { program_id: &SYSTEM, data: &data, accounts: &accounts }, &[account], signer)?;
    Ok(())
}

/// Whether nothing was made at this address yet; lamports alone are nothing.
pub fn is_unused(account: &AccountView) -> bool {
    account.owned_by(&SYSTEM) && account.is_data_empty()
}

/// Writes a whole account.
pub fn store(account: &AccountView, bytes: &[u8]) -> Result {
    account.try_borrow_mut()?.copy_from_slice(bytes);
    Ok(())
}

/// Moves `amount` of native SOL, which `from` signs for.
pub fn transfer_native(from: &AccountView, to: &AccountView, amount: u64) -> Result {
    transfer_native_by(from, to, amount, &[])
}

/// Moves `amount` of native SOL, for which `from` or `signer`'s seeds sign.
pub fn transfer_native_by(from: &AccountView, to: &AccountView, amount: u64, signer: &[Signer]) -> Result {
    const TRANSFER: u8 = 2;
    let mut data = [0; 12];
    data[0] = TRANSFER;
    data[4..].copy_from_slice(&amount.to_le_bytes());
    let accounts = [InstructionAccount::writable_signer(from.address()), InstructionAccount::writable(to.address())];
    invoke_signed(&InstructionView { program_id: &SYSTEM, data: &data, accounts: &accounts }, &[from, to], signer)?;
    Ok(())
}

/// Closes an account of this program; all its lamports go to `to`.
pub fn close(account: &AccountView, to: &AccountView) -> Result {
    let lamports = account.lamports();
    account.set_lamports(0);
    // Lamports of all accounts fit in 64 bits together.
    to.set_lamports(to.lamports() + lamports);
    account.close()?;
    Ok(())
}
