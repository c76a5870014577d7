//! Closes records when nobody needs them any more, and returns what they cost.

use gateway_program::{
    GatewayError,
    account::{FulfillmentRecord, State},
    instruction::Tag,
    rules, seeds,
};
use pinocchio::{AccountView, Address};

use crate::{
    account::{self, close, is_unused, key, require_key, require_signer, require_writable},
    failure::{Result, require},
    runtime::{self, Now},
};

/// Open to everyone: the lamports go to who paid them. By then no deposit that the payer signed can be made again, its
/// `reserve_deadline` is long past. A vault in which a release left the payer something must be empty: without the record nobody
/// could get that out.
#[inline(never)]
pub fn escrow(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [escrow, rent_payer, vault @ ..] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    require(data == [Tag::ReclaimEscrow as u8], GatewayError::InstructionInvalid)?;
    require_writable(&[escrow, rent_payer])?;
    let record = account::escrow(program_id, escrow)?;
    let ended = matches!(record.state(), Some(State::Released | State::Refunded));
    require(ended, GatewayError::StateNotAllowed)?;
    require_key(rent_payer, &record.rent_payer, GatewayError::RentPayerMismatch)?;
    let left_some = record.state() == Some(State::Released) && record.remainder() > 0;
    match vault {
        [] if !left_some => {}
        [vault] if left_some => {
            let seeds: [&[u8]; 3] = [seeds::VAULT, &record.payment_id, &[record.vault_bump]];
            let is_empty = runtime::is_address_of(vault.address(), &seeds, program_id) && is_unused(vault);
            require(is_empty, GatewayError::VaultInvalid)?;
        }
        _ => return Err(GatewayError::AccountsInvalid.into()),
    }
    require_time(record.refund_after)?;
    close(escrow, rent_payer)
}

/// By the settler, who may want to keep the proof of its delivery.
#[inline(never)]
pub fn fulfillment(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [account, settler] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    require(data == [Tag::ReclaimFulfillment as u8], GatewayError::InstructionInvalid)?;
    require_signer(settler)?;
    require_writable(&[account, settler])?;
    // Only the program makes accounts of its own, each at its own address, so the tag tells which this is.
    require(account.owned_by(program_id), GatewayError::FulfillmentInvalid)?;
    let record = FulfillmentRecord::from_bytes(&account.try_borrow()?).ok_or(GatewayError::FulfillmentInvalid)?;
    require(record.settler == *key(settler), GatewayError::SettlerMismatch)?;
    require_time(record.fulfill_by)?;
    close(account, settler)
}

fn require_time(end: u64) -> Result {
    require(Now::get()?.unix_seconds >= rules::reclaim_from(end), GatewayError::ReclaimTooEarly)
}
