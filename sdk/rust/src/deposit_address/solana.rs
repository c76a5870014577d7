//! Solana: the escrow's own program makes the addresses, and alone signs for them.

use chains_solana::{
    deposit_addresses::committed,
    program::{key, mint, text},
};
use events::{Account, AssetId};
use gateway_program::{
    Key,
    host::{self, Instruction},
    message::Deposit,
};

use super::{AddressFamily, AddressTerms, Checked, Commitment, Payable, unusable};
use crate::error::Error;

pub(super) const FAMILY: AddressFamily = AddressFamily {
    factory: Some(Account::to_string),
    commit,
    token: |asset| mint(asset).map(drop).map_err(unusable),
    uri: |asset, address, _| format!("solana:{address}?spl-token={}", asset.reference()),
    ignores_case: false,
};

fn read(account: &Account) -> Result<Key, Error> {
    key(account).map_err(unusable)
}

fn commit(payable: &Payable<'_>, program: &Account) -> Result<Commitment, Error> {
    let Payable { payment_id, terms, plan, amount } = payable;
    let deposit = committed(payment_id, terms, plan, *amount).map_err(unusable)?;
    let address = text(&host::deposit_address(&read(program)?, &deposit).key);
    Ok(Commitment { terms: AddressTerms::Solana(deposit), address })
}

impl Checked {
    /// The instruction by which anyone has sent to the refund account all of a token that is in the address's associated token account,
    /// on Solana. The refund account's own has to be there: it may be made in the same transaction. Of the payment's token that is
    /// possible once no deposit can be made any more: after the terms' `reserve_deadline`, or when the payment has been deposited.
    ///
    /// `token_program` is that of the token's mint, SPL Token or Token-2022. With `closes` the emptied token account is closed, and its
    /// rent goes to `carrier`, such as the account that sends the transaction; one in which Token-2022 withheld fees cannot be.
    /// [`given_back_to`](host::given_back_to) names another token account, for which the refund account signs.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is not a token or an account on Solana, and for an address on another chain.
    pub fn give_back_token(
        &self,
        token: &AssetId,
        token_program: &Account,
        carrier: &Account,
        closes: bool,
    ) -> Result<Instruction, Error> {
        let (program, terms) = self.on_solana()?;
        let mint = mint(token).map_err(unusable)?;
        let token_program = read(token_program)?;
        Ok(host::give_back_of(&program, read(carrier)?, (&token_program, &mint), terms, closes))
    }

    /// The instruction by which anyone has sent to the refund account the SOL at the address itself, on Solana, at any time.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address on another chain.
    pub fn give_back_lamports(&self) -> Result<Instruction, Error> {
        let (program, terms) = self.on_solana()?;
        Ok(host::give_back_lamports(&program, terms))
    }

    fn on_solana(&self) -> Result<(Key, &Deposit), Error> {
        match &self.terms {
            AddressTerms::Solana(terms) => Ok((read(&self.factory)?, terms)),
            #[cfg(any(feature = "evm", feature = "tron"))]
            AddressTerms::Solidity(_) => Err(unusable("the terms are those of an address on an EVM chain or Tron")),
        }
    }
}
