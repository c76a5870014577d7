//! An address that commits to what happens to its money: found from a hash, without a key, signed for by the program alone.

use gateway_program::{GatewayError, Hash, ids};
use pinocchio::{
    AccountView, Address,
    cpi::{Seed, Signer},
};

use crate::{
    account::{self, key},
    failure::{Result, require},
    runtime,
    token::{Token, Transfer},
};

/// What an address commits to.
pub struct Committed<'a> {
    /// First seed of such addresses.
    pub seed: &'static [u8],
    /// What is hashed for the second.
    pub preimage: [&'a [u8]; 3],
    /// What another address fails with.
    pub mismatch: GatewayError,
}

/// The address, and what it signs with.
pub struct Own<'a> {
    pub at: &'a AccountView,
    seed: &'static [u8],
    hash: Hash,
    bump: u8,
}

impl<'a> Own<'a> {
    /// # Errors
    /// When `at` is not the address that commits to this.
    #[inline(never)]
    pub fn find(program_id: &Address, at: &'a AccountView, committed: &Committed) -> Result<Self> {
        let Committed { seed, preimage, mismatch } = *committed;
        let hash = runtime::sha256(&preimage);
        let (expected, bump) = runtime::find_address(&[seed, &hash], program_id.as_array())?;
        require(at.address() == &expected, mismatch)?;
        Ok(Self { at, seed, hash, bump })
    }

    fn signed(&self, act: impl FnOnce(&[Signer]) -> Result) -> Result {
        let bump = [self.bump];
        let seeds = [Seed::from(self.seed), Seed::from(&self.hash), Seed::from(&bump)];
        act(&[Signer::from(&seeds)])
    }

    /// Moves exactly the amount; `ReceivedNotExact` otherwise.
    #[inline(never)]
    pub fn move_exactly(&self, token: &Token, transfer: &Transfer) -> Result {
        self.signed(|signer| token.transfer_exactly(transfer, GatewayError::ReceivedNotExact, signer))
    }

    /// Moves the amount; what the token takes of it on the way is the receiver's.
    #[inline(never)]
    pub fn give(&self, token: &Token, transfer: &Transfer) -> Result {
        self.signed(|signer| token.transfer(transfer, signer))
    }

    /// Moves native SOL that is at the address itself.
    #[inline(never)]
    pub fn give_lamports(&self, to: &AccountView, amount: u64) -> Result {
        self.signed(|signer| account::transfer_native_by(self.at, to, amount, signer))
    }

    /// Closes a token account of the address that is empty. One of wrapped SOL stays: it may hold lamports that nobody has counted as
    /// tokens yet, and they would go with the rent.
    #[inline(never)]
    pub fn close(&self, token: &Token, account: &AccountView, to: &AccountView) -> Result {
        if [ids::NATIVE_MINT, ids::NATIVE_MINT_2022].contains(key(token.mint)) {
            return Ok(());
        }
        self.signed(|signer| token.close(account, to, self.at, signer))
    }
}
