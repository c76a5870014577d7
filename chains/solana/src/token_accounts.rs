//! Token accounts of a wallet: there are two token programs, and the mint says which is the token's, so both places are read along with it.

use gateway_program::{Key, host, ids, token::TokenAccount};

use super::node::Snapshot;

/// The token programs, in the order of the places.
pub(crate) const TOKEN_PROGRAMS: [Key; 2] = [ids::TOKEN_PROGRAM, ids::TOKEN_2022_PROGRAM];

/// The associated token accounts of `wallet` for `mint`, one for each of [`TOKEN_PROGRAMS`].
pub(crate) fn token_accounts(wallet: &Key, mint: &Key) -> [Key; 2] {
    TOKEN_PROGRAMS.map(|token_program| host::associated_token_address(wallet, &token_program, mint).key)
}

/// Place of a token program among [`TOKEN_PROGRAMS`].
pub(crate) fn place_of(token_program: &Key) -> usize {
    usize::from(*token_program == ids::TOKEN_2022_PROGRAM)
}

/// What a token account has, frozen or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balance {
    /// How much is in it, smallest unit.
    pub amount: u64,
    /// Whether the token's issuer has frozen it.
    pub is_frozen: bool,
}

/// What is in the token account at `index` of a snapshot, where it is `owner`'s; `None` where there is none.
pub(crate) fn balance(found: &Snapshot, index: usize, owner: &Key) -> Option<Balance> {
    let account = found.account(index)?;
    let (held, is_frozen) = TokenAccount::parse_even_frozen(&account.owner, &account.data).ok()?;
    (held.owner == *owner).then_some(Balance { amount: held.amount, is_frozen })
}
