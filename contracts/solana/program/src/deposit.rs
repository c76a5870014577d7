//! Locks a payer's money for a settler: deposit and reservation in one.

use gateway_program::{
    GatewayError, Hash, Key,
    account::{ANY_QUOTE, Config, Escrow, State},
    ids,
    instruction::DepositAndReserve,
    log, message, rules, seeds, token,
};
use pinocchio::{
    AccountView, Address,
    cpi::{Seed, Signer},
};

use crate::{
    account::{Fresh, config, create, is_unused, key, require_key, require_signer, require_writable, store},
    failure::{Result, require},
    runtime::{self, Now},
    signature::{Signatory, Signed},
    token::{Token, Transfer},
};

#[inline(never)]
pub fn deposit_and_reserve(program_id: &Address, accounts: &[AccountView], data: &[u8]) -> Result {
    let [
        rent_payer,
        reserver,
        config_account,
        escrow,
        vault,
        payer_token,
        delegate,
        mint,
        token_program,
        system,
        instructions,
    ] = accounts
    else {
        return Err(GatewayError::AccountsInvalid.into());
    };
    let terms = DepositAndReserve::from_bytes(data).ok_or(GatewayError::InstructionInvalid)?;
    require_signer(rent_payer)?;
    require_signer(reserver)?;
    require_writable(&[rent_payer, escrow, vault, payer_token])?;
    require_key(system, &ids::SYSTEM_PROGRAM, GatewayError::SystemProgramInvalid)?;
    let config = config(program_id, config_account)?;

    let program = program_id.as_array();
    let made = Made::find(program_id, &[escrow, vault, rent_payer], &terms.payment_id)?;
    let now = Now::get()?;
    rules::deposit(&terms, key(reserver), &config.reserver, now.unix_seconds)?;
    let own = [program, key(escrow), key(vault), key(config_account)];
    require(!own.contains(&&terms.settler), GatewayError::SettlerInvalid)?;

    let token = Token::judge(token_program, mint)?;
    let body = signed_body(&terms, &config, mint);
    let signer = Signatory::Key(&terms.signer);
    let signed = Signed { program_id, config: &config, instructions, index: terms.ed25519_index, signer };
    signed.require(&body)?;
    let (delegate_address, delegate_bump) = runtime::find_address(&[seeds::DELEGATE, &terms.signer], program)?;
    require(delegate.address() == &delegate_address, GatewayError::AllowanceMissing)?;
    require_allowance(&token, payer_token, delegate, &terms)?;

    made.make_vault(&token, &terms.payment_id)?;
    let bump_seed = [delegate_bump];
    let signer = [Seed::from(seeds::DELEGATE), Seed::from(&terms.signer), Seed::from(&bump_seed)];
    let transfer = Transfer { from: payer_token, to: vault, authority: delegate, amount: terms.source_amount };
    token.transfer_exactly(&transfer, GatewayError::ReceivedNotExact, &[Signer::from(&signer)])?;

    made.make_escrow(program_id, &terms.payment_id)?;
    made.write(&terms, &token, key(reserver), &Entry { deposited: terms.source_amount, slot: now.slot })
}

/// What the payer consented to, from the terms as they came.
#[inline(never)]
fn signed_body(terms: &DepositAndReserve, config: &Config, mint: &AccountView) -> [u8; message::Deposit::SIZE] {
    let body = message::Deposit {
        payment_id: terms.payment_id,
        terms_hash: terms.terms_hash,
        quote_hash: terms.agreed_quote_hash,
        payer: terms.payer,
        mint: *key(mint),
        amount: terms.cap,
        reserver: config.reserver,
        releaser: terms.releaser,
        reserve_deadline: terms.reserve_deadline,
        fulfillment_deadline: terms.fulfillment_deadline,
        refund_after: terms.refund_after,
    };
    body.to_bytes()
}

/// The allowance is what makes the signer the payer's: only the owner of the account can have given it.
fn require_allowance(
    token: &Token,
    payer_token: &AccountView,
    delegate: &AccountView,
    terms: &DepositAndReserve,
) -> Result {
    let from = token.account(payer_token)?;
    require(from.owner == terms.payer, GatewayError::TokenOwnerMismatch)?;
    require(from.delegate.as_ref() == Some(key(delegate)), GatewayError::AllowanceMissing)?;
    require(from.delegated_amount >= terms.source_amount, GatewayError::AllowanceTooSmall)?;
    require(from.amount >= terms.source_amount, GatewayError::BalanceTooSmall)
}

/// The accounts that a deposit makes, and who pays for them.
pub struct Made<'a> {
    escrow: &'a AccountView,
    bump: u8,
    vault: &'a AccountView,
    vault_bump: u8,
    rent_payer: &'a AccountView,
}

/// What came in, and when.
pub struct Entry {
    pub deposited: u64,
    pub slot: u64,
}

impl<'a> Made<'a> {
    /// The payment's, which must be unused.
    #[inline(never)]
    pub fn find(
        program_id: &Address,
        [escrow, vault, rent_payer]: &[&'a AccountView; 3],
        payment_id: &Hash,
    ) -> Result<Self> {
        let program = program_id.as_array();
        let (escrow_address, bump) = runtime::find_address(&[seeds::ESCROW, payment_id], program)?;
        require(escrow.address() == &escrow_address, GatewayError::EscrowInvalid)?;
        require(is_unused(escrow), GatewayError::PaymentIdUsed)?;
        let (vault_address, vault_bump) = runtime::find_address(&[seeds::VAULT, payment_id], program)?;
        require(vault.address() == &vault_address && is_unused(vault), GatewayError::VaultInvalid)?;
        Ok(Self { escrow, bump, vault, vault_bump, rent_payer })
    }

    /// The vault belongs to the escrow's record.
    #[inline(never)]
    pub fn make_vault(&self, token: &Token, payment_id: &Hash) -> Result {
        let bump_seed = [self.vault_bump];
        let signer = [Seed::from(seeds::VAULT), Seed::from(payment_id), Seed::from(&bump_seed)];
        let fresh = Fresh { account: self.vault, size: token::ACCOUNT_SIZE, owner: token.program.address() };
        create(self.rent_payer, &fresh, &[Signer::from(&signer)])?;
        token.initialize_account(self.vault, self.escrow.address())
    }

    #[inline(never)]
    pub fn make_escrow(&self, program_id: &Address, payment_id: &Hash) -> Result {
        let bump_seed = [self.bump];
        let signer = [Seed::from(seeds::ESCROW), Seed::from(payment_id), Seed::from(&bump_seed)];
        let fresh = Fresh { account: self.escrow, size: Escrow::SIZE, owner: program_id };
        create(self.rent_payer, &fresh, &[Signer::from(&signer)])
    }

    #[inline(never)]
    pub fn write(&self, terms: &DepositAndReserve, token: &Token, reserver: &Key, entry: &Entry) -> Result {
        let record = Escrow {
            state: State::Reserved as u8,
            bump: self.bump,
            vault_bump: self.vault_bump,
            payment_id: terms.payment_id,
            payer: terms.payer,
            rent_payer: *key(self.rent_payer),
            reserver: *reserver,
            releaser: terms.releaser,
            mint: *key(token.mint),
            token_program: *key(token.program),
            settler: terms.settler,
            deposited: entry.deposited,
            source_amount: terms.source_amount,
            terms_hash: terms.terms_hash,
            quote_hash: terms.quote_hash,
            reserve_deadline: terms.reserve_deadline,
            fulfillment_deadline: terms.fulfillment_deadline,
            fulfill_by: terms.fulfill_by,
            refund_after: terms.refund_after,
            slots: entry.slot,
            ended_slot: if terms.agreed_quote_hash == [0; 32] { ANY_QUOTE } else { 0 },
        };
        store(self.escrow, &record.to_bytes())?;
        log_deposit(&record);
        Ok(())
    }
}

#[inline(never)]
fn log_deposit(record: &Escrow) {
    let deposited = log::Deposited {
        payment_id: record.payment_id,
        quote_hash: record.quote_hash,
        payer: record.payer,
        terms_hash: record.terms_hash,
        mint: record.mint,
        amount: record.deposited,
    };
    runtime::log(&deposited.to_bytes());
    let reserved = log::Reserved {
        payment_id: record.payment_id,
        quote_hash: record.quote_hash,
        settler: record.settler,
        source_amount: record.source_amount,
        fulfill_by: record.fulfill_by,
    };
    runtime::log(&reserved.to_bytes());
}
