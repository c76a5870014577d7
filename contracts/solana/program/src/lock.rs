//! A deposit from an address, for every kind of address alike: what came there is locked for a settler, as if the payer had signed.

use gateway_program::{
    GatewayError, ids,
    instruction::{DepositAndReserve, Reservation},
    message::Deposit,
    rules,
};
use pinocchio::{AccountView, Address};

use crate::{
    account::{config, key, require_key, require_signer, require_writable},
    deposit::{Entry, Made},
    failure::{Result, require},
    own::Own,
    runtime::Now,
    token::{Token, Transfer},
};

/// Accounts of such a deposit.
pub type Accounts = [AccountView; 10];
/// Which of them is the address.
pub const AT: usize = 6;

/// What came where, and what it is to be locked for.
pub struct Incoming<'a> {
    /// The account [`AT`].
    pub own: Own<'a>,
    pub terms: &'a Deposit,
    pub reservation: &'a Reservation,
}

/// A deposit that was judged, and is not made yet.
pub struct Lock<'a> {
    pub now: Now,
    own: Own<'a>,
    made: Made<'a>,
    rent_payer: &'a AccountView,
    reserver: &'a AccountView,
    from: &'a AccountView,
    vault: &'a AccountView,
    token: Token<'a>,
    terms: DepositAndReserve,
    deposited: u64,
}

impl<'a> Lock<'a> {
    /// Judges all but `deposited`, for which each kind of address has a rule of its own.
    #[inline(never)]
    pub fn judge(program_id: &Address, accounts: &'a Accounts, incoming: Incoming<'a>) -> Result<Self> {
        let Incoming { own, terms, reservation } = incoming;
        let [rent_payer, reserver, config_account, escrow, vault, from, _, mint, token_program, system] = accounts;
        require_signer(rent_payer)?;
        require_signer(reserver)?;
        require_writable(&[rent_payer, escrow, vault, from])?;
        require_key(system, &ids::SYSTEM_PROGRAM, GatewayError::SystemProgramInvalid)?;
        let config = config(program_id, config_account)?;
        let made = Made::find(program_id, &[escrow, vault, rent_payer], &terms.payment_id)?;

        let now = Now::get()?;
        let signed = reservation.as_signed(terms);
        rules::deposit(&signed, key(reserver), &config.reserver, now.unix_seconds)?;
        require(terms.reserver == config.reserver, GatewayError::ReserverNotAdmitted)?;
        let gateways = [program_id.as_array(), key(escrow), key(vault), key(config_account), key(own.at)];
        require(!gateways.contains(&&signed.settler), GatewayError::SettlerInvalid)?;

        require_key(mint, &terms.mint, GatewayError::MintInvalid)?;
        let token = Token::judge(token_program, mint)?;
        token.require_associated(from, key(own.at))?;
        let deposited = reservation.deposited;
        Ok(Self { now, own, made, rent_payer, reserver, from, vault, token, terms: signed, deposited })
    }

    /// Moves the money and writes the escrow's record.
    ///
    /// # Errors
    /// `BalanceTooSmall` when less than `deposited` is there.
    #[inline(never)]
    pub fn carry_out(&self, program_id: &Address) -> Result {
        let Self { own, made, token, terms, .. } = self;
        require(token.account(self.from)?.amount >= self.deposited, GatewayError::BalanceTooSmall)?;
        made.make_vault(token, &terms.payment_id)?;
        let transfer = Transfer { from: self.from, to: self.vault, authority: own.at, amount: self.deposited };
        own.move_exactly(token, &transfer)?;
        made.make_escrow(program_id, &terms.payment_id)?;
        let entry = Entry { deposited: self.deposited, slot: self.now.slot };
        made.write(terms, token, key(self.reserver), &entry)
    }

    /// Closes the address's token account if it is empty now; its rent goes to who carries the money.
    #[inline(never)]
    pub fn close_emptied(&self) -> Result {
        if self.token.account(self.from)?.amount > 0 {
            return Ok(());
        }
        self.own.close(&self.token, self.from, self.rent_payer)
    }
}
