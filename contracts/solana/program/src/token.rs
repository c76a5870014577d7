//! What the program asks of SPL Token and Token-2022.

use gateway_program::{
    GatewayError, Key, ids,
    token::{Mint, TokenAccount},
};
use pinocchio::{
    AccountView, Address,
    cpi::{Signer, invoke, invoke_signed},
    instruction::{InstructionAccount, InstructionView},
};

use crate::{
    account::{key, owner},
    failure::{Result, require},
    runtime,
};

/// A mint and the program it belongs to.
pub struct Token<'a> {
    pub program: &'a AccountView,
    pub mint: &'a AccountView,
    decimals: u8,
}

/// What is to be moved.
pub struct Transfer<'a> {
    pub from: &'a AccountView,
    pub to: &'a AccountView,
    /// Who signs for `from`.
    pub authority: &'a AccountView,
    pub amount: u64,
}

impl<'a> Token<'a> {
    /// # Errors
    /// When the program is no token program, or the mint is not one of its mints that are taken.
    pub fn judge(program: &'a AccountView, mint: &'a AccountView) -> Result<Self> {
        let token = Self::known(program, mint)?;
        Mint::parse(&owner(mint), &mint.try_borrow()?)?;
        Ok(token)
    }

    /// The same for money that is here already: its mint was judged when it came in, and may have changed since.
    ///
    /// # Errors
    /// When the program is no token program, or the mint is not one of its mints.
    pub fn known(program: &'a AccountView, mint: &'a AccountView) -> Result<Self> {
        require(ids::is_token_program(key(program)), GatewayError::TokenProgramInvalid)?;
        require(mint.owned_by(program.address()), GatewayError::MintInvalid)?;
        let decimals = Mint::known(&owner(mint), &mint.try_borrow()?)?.decimals;
        Ok(Self { program, mint, decimals })
    }

    /// Reads an account of this token.
    pub fn account(&self, account: &AccountView) -> Result<TokenAccount> {
        require(account.owned_by(self.program.address()), GatewayError::TokenAccountInvalid)?;
        let read = TokenAccount::parse(&owner(account), &account.try_borrow()?)?;
        require(read.mint == *key(self.mint), GatewayError::TokenMintMismatch)?;
        Ok(read)
    }

    /// Requires `account` to be the associated token account of `wallet`, and still the wallet's.
    pub fn require_associated(&self, account: &AccountView, wallet: &Key) -> Result {
        let seeds: [&[u8]; 3] = [wallet, key(self.program), key(self.mint)];
        let (expected, _) = runtime::find_address(&seeds, &ids::ASSOCIATED_TOKEN_PROGRAM)?;
        require(account.address() == &expected, GatewayError::TokenAddressMismatch)?;
        require(self.account(account)?.owner == *wallet, GatewayError::TokenOwnerMismatch)
    }

    /// Makes a fresh account of this program an account of this token.
    pub fn initialize_account(&self, account: &AccountView, owner: &Address) -> Result {
        const INITIALIZE_ACCOUNT_3: u8 = 18;
        let mut data = [0; 33];
        data[0] = INITIALIZE_ACCOUNT_3;
        data[1..].copy_from_slice(owner.as_array());
        let accounts =
            [InstructionAccount::writable(account.address()), InstructionAccount::readonly(self.mint.address())];
        let instruction = InstructionView { program_id: self.program.address(), data: &data, accounts: &accounts };
        invoke(&instruction, &[account, self.mint])?;
        Ok(())
    }

    /// Moves exactly the amount: `inexact` is the error when the receiving account did not gain it.
    #[inline(never)]
    pub fn transfer_exactly(&self, transfer: &Transfer, inexact: GatewayError, signer: &[Signer]) -> Result {
        let before = self.account(transfer.to)?.amount;
        self.transfer(transfer, signer)?;
        let gained = self.account(transfer.to)?.amount.checked_sub(before);
        require(gained == Some(transfer.amount), inexact)
    }

    /// Moves the amount; what the token takes of it on the way is the receiver's.
    #[inline(never)]
    pub fn transfer(&self, transfer: &Transfer, signer: &[Signer]) -> Result {
        const TRANSFER_CHECKED: u8 = 12;
        let Transfer { from, to, authority, amount } = *transfer;
        let mut data = [0; 10];
        data[0] = TRANSFER_CHECKED;
        data[1..9].copy_from_slice(&amount.to_le_bytes());
        data[9] = self.decimals;
        let accounts = [
            InstructionAccount::writable(from.address()),
            InstructionAccount::readonly(self.mint.address()),
            InstructionAccount::writable(to.address()),
            InstructionAccount::readonly_signer(authority.address()),
        ];
        let instruction = InstructionView { program_id: self.program.address(), data: &data, accounts: &accounts };
        invoke_signed(&instruction, &[from, self.mint, to, authority], signer)?;
        Ok(())
    }

    /// Closes an empty account of this token; its lamports go to `to`.
    pub fn close(&self, account: &AccountView, to: &AccountView, authority: &AccountView, signer: &[Signer]) -> Result {
        const CLOSE_ACCOUNT: u8 = 9;
        let accounts = [
            InstructionAccount::writable(account.address()),
            InstructionAccount::writable(to.address()),
            InstructionAccount::readonly_signer(authority.address()),
        ];
        let instruction =
            InstructionView { program_id: self.program.address(), data: &[CLOSE_ACCOUNT], accounts: &accounts };
        invoke_signed(&instruction, &[account, to, authority], signer)?;
        Ok(())
    }
}
