//! Reserves an escrow for another settler when the one before did not deliver.

use gateway_program::{GatewayError, account::Escrow, instruction::Reassign, log, message::NonDelivery, rules, seeds};
use pinocchio::{AccountView, Address};

use crate::{
    account::{config, escrow, key, require_signer, require_writable, store},
    failure::{Result, require},
    runtime::{self, Now},
    signature::{Signatory, Signed},
};

/// By the deposit's reserver, who signs the transaction, with the releaser's word, a key's or a verifier set's, that nothing was
/// delivered under the reservation until then. What the releaser said about that counts for the new one in nothing: it names the
/// quote.
#[inline(never)]
pub fn reassign(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [reserver, account, config_account, instructions] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let (to, word) = Reassign::with_word(data)?;
    require_signer(reserver)?;
    require_writable(&[account])?;
    let mut record = escrow(program_id, account)?;
    let now = Now::get()?;
    rules::reassignment(&record, &to, key(reserver), now.unix_seconds)?;
    require_foreign(program_id, &record, &to, [account, config_account])?;
    let body = NonDelivery { payment_id: record.payment_id, quote_hash: record.quote_hash }.to_bytes();
    let config = config(program_id, config_account)?;
    let signer = Signatory::for_releaser(&record.releaser, word.set)?;
    Signed { program_id, config: &config, instructions, index: word.ed25519_index, signer }.require(&body)?;

    record.reassign(&to, now.slot)?;
    store(account, &record.to_bytes())?;
    runtime::say(log::REASSIGN_SAID);
    log_reassigned(&record, &to);
    Ok(())
}

/// The settler must be none of the program's own accounts, as at the deposit.
#[inline(never)]
fn require_foreign(program_id: &Address, record: &Escrow, to: &Reassign, own: [&AccountView; 2]) -> Result {
    let seeds: [&[u8]; 3] = [seeds::VAULT, &record.payment_id, &[record.vault_bump]];
    let settler = Address::new_from_array(to.settler);
    let is_own = own.iter().any(|account| *key(account) == to.settler)
        || *program_id.as_array() == to.settler
        || runtime::is_address_of(&settler, &seeds, program_id);
    require(!is_own, GatewayError::SettlerInvalid)
}

#[inline(never)]
fn log_reassigned(record: &Escrow, to: &Reassign) {
    let reassigned = log::Reassigned {
        payment_id: record.payment_id,
        previous_quote_hash: to.previous_quote_hash,
        quote_hash: to.quote_hash,
    };
    runtime::log(&reassigned.to_bytes());
    let reserved = log::Reserved {
        payment_id: record.payment_id,
        quote_hash: to.quote_hash,
        settler: to.settler,
        source_amount: to.source_amount,
        fulfill_by: to.fulfill_by,
    };
    runtime::log(&reserved.to_bytes());
}
