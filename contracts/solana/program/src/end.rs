//! The end of an escrow: release to the settler, cancellation or refund to the payer.

use gateway_program::{
    GatewayError, Key,
    account::{Escrow, State},
    instruction::{Attested, Tag},
    log,
    message::{Delivery, NonDelivery},
    seeds,
};
use pinocchio::{
    AccountView, Address,
    cpi::{Seed, Signer},
};

use crate::{
    account::{config, escrow, require_key, require_writable, store},
    failure::{Result, require},
    runtime::{self, Now},
    signature::{Signatory, Signed},
    token::{Token, Transfer},
};

/// Pays the settler with the releaser's word, a key's or a verifier set's, that it delivered. Open to everyone, before
/// `refund_after`.
#[inline(never)]
pub fn release(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let (end, [config, instructions], receiver) = split(accounts)?;
    let Attested { ed25519_index: index, set } = attested(data)?;
    let mut record = open(program_id, &end, State::Reserved)?;
    let now = Now::get()?;
    require(now.unix_seconds < record.refund_after, GatewayError::ReleaseWindowClosed)?;
    let body =
        Delivery { payment_id: record.payment_id, quote_hash: record.quote_hash, settler: record.settler }.to_bytes();
    let config = self::config(program_id, config)?;
    let signer = Signatory::for_releaser(&record.releaser, set)?;
    Signed { program_id, config: &config, instructions, index, signer }.require(&body)?;

    record.end(State::Released, now.slot);
    store(end.escrow, &record.to_bytes())?;
    end.pay_out(&record, &record.settler, record.remainder(), receiver)?;
    log_released(&record);
    Ok(())
}

/// Gives the money back with the releaser's word, a key's or a verifier set's, that nothing was delivered. Open to everyone,
/// before `refund_after`.
#[inline(never)]
pub fn cancel(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let (end, [config, instructions], receiver) = split(accounts)?;
    let Attested { ed25519_index: index, set } = attested(data)?;
    let record = open(program_id, &end, State::Reserved)?;
    let now = Now::get()?;
    require(now.unix_seconds < record.refund_after, GatewayError::ReleaseWindowClosed)?;
    let body = NonDelivery { payment_id: record.payment_id, quote_hash: record.quote_hash }.to_bytes();
    let config = self::config(program_id, config)?;
    let signer = Signatory::for_releaser(&record.releaser, set)?;
    Signed { program_id, config: &config, instructions, index, signer }.require(&body)?;
    end.give_back(record, receiver, now.slot)
}

/// Gives the money back from `refund_after` on. Open to everyone; it goes to the payer whoever asks.
#[inline(never)]
pub fn refund(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    require(data == [Tag::Refund as u8], GatewayError::InstructionInvalid)?;
    let (end, [], receiver) = split(accounts)?;
    let record = open(program_id, &end, State::Reserved)?;
    let now = Now::get()?;
    require(now.unix_seconds >= record.refund_after, GatewayError::RefundWindowNotOpen)?;
    end.give_back(record, receiver, now.slot)
}

/// Gives the payer what a release left of the deposit. Open to everyone; it goes to the payer whoever asks.
///
/// It is no part of the release: what stands in the way of the payer's own account must not stand in that of the settler.
#[inline(never)]
pub fn return_remainder(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    require(data == [Tag::ReturnRemainder as u8], GatewayError::InstructionInvalid)?;
    let (end, [], receiver) = split(accounts)?;
    // After the end a vault is there only while something of the payer's is in it.
    let record = open(program_id, &end, State::Released)?;
    end.pay_out(&record, &record.payer, 0, receiver)?;
    log_remainder_returned(&record);
    Ok(())
}

/// The accounts that every end takes.
struct End<'a> {
    escrow: &'a AccountView,
    vault: &'a AccountView,
    to: &'a AccountView,
    mint: &'a AccountView,
    rent_payer: &'a AccountView,
    token_program: &'a AccountView,
}

/// The accounts of an end, `N` more, and perhaps the receiver.
type Split<'a, const N: usize> = (End<'a>, &'a [AccountView; N], Option<&'a AccountView>);

fn split<const N: usize>(accounts: &[AccountView]) -> Result<Split<'_, N>> {
    let [escrow, vault, to, mint, rent_payer, token_program, rest @ ..] = accounts else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let (more, receiver) = rest.split_first_chunk().ok_or(GatewayError::AccountsInvalid)?;
    let receiver = match receiver {
        [] => None,
        [receiver] => Some(receiver),
        _ => return Err(GatewayError::AccountsInvalid.into()),
    };
    require_writable(&[escrow, vault, to, rent_payer])?;
    Ok((End { escrow, vault, to, mint, rent_payer, token_program }, more, receiver))
}

fn attested(data: &[u8]) -> Result<Attested<'_>> {
    // The tag is known by now.
    Ok(Attested::from_bytes(&data[1..])?)
}

/// The escrow, which must be in `state`, with the accounts that belong to it.
#[inline(never)]
fn open(program_id: &Address, end: &End, state: State) -> Result<Escrow> {
    let record = escrow(program_id, end.escrow)?;
    require(record.state() == Some(state), GatewayError::StateNotAllowed)?;
    let vault: [&[u8]; 3] = [seeds::VAULT, &record.payment_id, &[record.vault_bump]];
    require(runtime::is_address_of(end.vault.address(), &vault, program_id), GatewayError::VaultInvalid)?;
    require_key(end.mint, &record.mint, GatewayError::MintInvalid)?;
    require_key(end.token_program, &record.token_program, GatewayError::TokenProgramInvalid)?;
    require_key(end.rent_payer, &record.rent_payer, GatewayError::RentPayerMismatch)?;
    Ok(record)
}

impl End<'_> {
    fn give_back(&self, mut record: Escrow, receiver: Option<&AccountView>, slot: u64) -> Result {
        record.end(State::Refunded, slot);
        store(self.escrow, &record.to_bytes())?;
        self.pay_out(&record, &record.payer, 0, receiver)?;
        log_refunded(&record);
        Ok(())
    }

    /// Pays all that lies in the vault but `kept` to `owed`, and closes the vault when nothing is kept.
    ///
    /// The money goes to the associated token account. When who is owed signs as the last account, it may go to any
    /// account of the token: one whose account is frozen or was given away can still get out.
    ///
    /// All of it, and not only the deposit, because a token account that is not empty cannot be closed: a stranger who
    /// sends a token to the vault would otherwise hold up the end. The mint is not judged again: were it, one that was
    /// changed since the deposit would keep the money here for ever.
    #[inline(never)]
    fn pay_out(&self, record: &Escrow, owed: &Key, kept: u64, receiver: Option<&AccountView>) -> Result {
        let token = Token::known(self.token_program, self.mint)?;
        match receiver {
            Some(receiver) => {
                require_key(receiver, owed, GatewayError::TokenOwnerMismatch)?;
                require(receiver.is_signer(), GatewayError::SignatureMissing)?;
            }
            None => token.require_associated(self.to, owed)?,
        }
        let held = token.account(self.vault)?.amount;
        let amount = held.checked_sub(kept).ok_or(GatewayError::BalanceTooSmall)?;
        let bump_seed = [record.bump];
        let seeds = [Seed::from(seeds::ESCROW), Seed::from(&record.payment_id), Seed::from(&bump_seed)];
        let signer = [Signer::from(&seeds)];
        let transfer = Transfer { from: self.vault, to: self.to, authority: self.escrow, amount };
        token.transfer(&transfer, &signer)?;
        if kept > 0 {
            return Ok(());
        }
        token.close(self.vault, self.rent_payer, self.escrow, &signer)
    }
}

#[inline(never)]
fn log_released(record: &Escrow) {
    let line = log::Released {
        payment_id: record.payment_id,
        quote_hash: record.quote_hash,
        settler: record.settler,
        amount: record.source_amount,
        remainder: record.remainder(),
    };
    runtime::log(&line.to_bytes());
}

#[inline(never)]
fn log_remainder_returned(record: &Escrow) {
    let line = log::RemainderReturned {
        payment_id: record.payment_id,
        quote_hash: record.quote_hash,
        payer: record.payer,
        amount: record.remainder(),
    };
    runtime::log(&line.to_bytes());
}

#[inline(never)]
fn log_refunded(record: &Escrow) {
    let line = log::Refunded {
        payment_id: record.payment_id,
        quote_hash: record.quote_hash,
        payer: record.payer,
        amount: record.deposited,
    };
    runtime::log(&line.to_bytes());
}
