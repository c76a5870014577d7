//! Delivers exactly an amount to a recipient in time, and records it, once.

use gateway_program::{
    GatewayError, Hash, ZERO_KEY, account::FulfillmentRecord, ids, instruction::Fulfill, log, message, seeds,
};
use pinocchio::{
    AccountView, Address,
    cpi::{Seed, Signer},
};

use crate::{
    account::{
        Fresh, create, is_unused, key, owner, require_key, require_signer, require_writable, store, transfer_native,
    },
    failure::{Result, require},
    runtime::{self, Now},
    token::{Token, Transfer},
};

#[inline(never)]
pub fn fulfill(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [settler, record, system, recipient, token_accounts @ ..] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let terms = Fulfill::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    require_signer(settler)?;
    require_writable(&[settler, record])?;
    require_key(system, &ids::SYSTEM_PROGRAM, GatewayError::SystemProgramInvalid)?;

    let now = Now::get()?;
    require(now.unix_seconds <= terms.fulfill_by, GatewayError::FulfillByPassed)?;
    require(terms.amount > 0, GatewayError::AmountZero)?;
    require_key(recipient, &terms.recipient, GatewayError::RecipientInvalid)?;
    require_recipient(program_id, recipient)?;
    self::record(program_id, &Delivery { settler, record, terms: &terms, slot: now.slot })?;

    if terms.mint == ZERO_KEY {
        require(token_accounts.is_empty(), GatewayError::AccountsInvalid)?;
        deliver_native(settler, recipient, terms.amount)?;
    } else {
        deliver_tokens(settler, token_accounts, &terms)?;
    }
    log_fulfilled(settler, &terms);
    Ok(())
}

/// Nobody can have meant these, and the money would be lost.
fn require_recipient(program_id: &Address, recipient: &AccountView) -> Result {
    let lost = *key(recipient) == ZERO_KEY
        || recipient.executable()
        || recipient.owned_by(program_id)
        || ids::is_token_program(&owner(recipient));
    require(!lost, GatewayError::RecipientInvalid)
}

/// A delivery and where it is recorded.
struct Delivery<'a> {
    settler: &'a AccountView,
    record: &'a AccountView,
    terms: &'a Fulfill,
    slot: u64,
}

/// The record comes first; what fails later undoes it.
#[inline(never)]
fn record(program_id: &Address, delivery: &Delivery) -> Result {
    let Delivery { settler, record: account, terms, slot } = *delivery;
    let delivery = message::Fulfillment {
        payment_id: terms.payment_id,
        quote_hash: terms.quote_hash,
        settler: *key(settler),
        mint: terms.mint,
        recipient: terms.recipient,
        amount: terms.amount,
        fulfill_by: terms.fulfill_by,
    };
    let program = program_id.as_array();
    let delivery_key: Hash = runtime::sha256(&message::Fulfillment::preimage(program, &delivery.to_bytes()));
    let (address, bump) = runtime::find_address(&[seeds::FULFILLMENT, &delivery_key], program)?;
    require(account.address() == &address, GatewayError::FulfillmentInvalid)?;
    require(is_unused(account), GatewayError::AlreadyFulfilled)?;

    let bump_seed = [bump];
    let seeds = [Seed::from(seeds::FULFILLMENT), Seed::from(&delivery_key), Seed::from(&bump_seed)];
    let fresh = Fresh { account, size: FulfillmentRecord::SIZE, owner: program_id };
    create(settler, &fresh, &[Signer::from(&seeds)])?;
    let record = FulfillmentRecord {
        bump,
        payment_id: delivery.payment_id,
        quote_hash: delivery.quote_hash,
        settler: delivery.settler,
        mint: delivery.mint,
        recipient: delivery.recipient,
        amount: delivery.amount,
        fulfill_by: delivery.fulfill_by,
        slot,
    };
    store(account, &record.to_bytes())
}

fn deliver_native(settler: &AccountView, recipient: &AccountView, amount: u64) -> Result {
    require_writable(&[recipient])?;
    let before = recipient.lamports();
    transfer_native(settler, recipient, amount)?;
    require(recipient.lamports().checked_sub(before) == Some(amount), GatewayError::DeliveredNotExact)
}

#[inline(never)]
fn deliver_tokens(settler: &AccountView, accounts: &[AccountView], terms: &Fulfill) -> Result {
    let [from, to, mint, token_program] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    require_writable(&[from, to])?;
    require_key(mint, &terms.mint, GatewayError::MintInvalid)?;
    let token = Token::judge(token_program, mint)?;
    token.require_associated(to, &terms.recipient)?;
    let have = token.account(from)?;
    require(have.owner == *key(settler), GatewayError::TokenOwnerMismatch)?;
    require(have.amount >= terms.amount, GatewayError::BalanceTooSmall)?;
    let transfer = Transfer { from, to, authority: settler, amount: terms.amount };
    token.transfer_exactly(&transfer, GatewayError::DeliveredNotExact, &[])
}

#[inline(never)]
fn log_fulfilled(settler: &AccountView, terms: &Fulfill) {
    let line = log::Fulfilled {
        payment_id: terms.payment_id,
        quote_hash: terms.quote_hash,
        settler: *key(settler),
        mint: terms.mint,
        recipient: terms.recipient,
        amount: terms.amount,
        fulfill_by: terms.fulfill_by,
    };
    runtime::log(&line.to_bytes());
}
