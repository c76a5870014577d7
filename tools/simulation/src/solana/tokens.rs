//! Mints and token accounts of SPL Token, as bytes.

use gateway_program::{
    Key, ids,
    token::{ACCOUNT_SIZE, MINT_SIZE},
};
use solana_account::{Account, AccountSharedData, ReadableAccount};

/// Where the supply stands in a mint.
const SUPPLY: std::ops::Range<usize> = 36..44;
/// Where the decimals stand in a mint.
const DECIMALS: usize = 44;
/// Places in a token account.
const MINT: std::ops::Range<usize> = 0..32;
const OWNER: std::ops::Range<usize> = 32..64;
const AMOUNT: std::ops::Range<usize> = 64..72;
const DELEGATE: std::ops::Range<usize> = 72..108;
const STATE: usize = 108;
const DELEGATED: std::ops::Range<usize> = 121..129;
/// A token account that can be used.
const USABLE: u8 = 1;

/// What is in a token account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub mint: Key,
    pub owner: Key,
    pub amount: u64,
    /// The token's program.
    pub program: Key,
}

fn number(bytes: &[u8], at: std::ops::Range<usize>) -> Option<u64> {
    bytes.get(at)?.try_into().ok().map(u64::from_le_bytes)
}

fn account(lamports: u64, data: Vec<u8>) -> AccountSharedData {
    let owner = ids::TOKEN_PROGRAM.into();
    Account { lamports, data, owner, executable: false, rent_epoch: u64::MAX }.into()
}

/// A mint of which nobody has anything yet. `authority` may mint; nobody may freeze.
pub(super) fn mint(lamports: u64, authority: &Key, decimals: u8) -> AccountSharedData {
    let mut data = vec![0; MINT_SIZE];
    data[..4].copy_from_slice(&1_u32.to_le_bytes());
    data[4..36].copy_from_slice(authority);
    data[DECIMALS] = decimals;
    data[DECIMALS + 1] = 1;
    account(lamports, data)
}

/// The same mint with so much more in circulation.
pub(super) fn with_supply(mint: &AccountSharedData, more: u64) -> AccountSharedData {
    let mut data = mint.data().to_vec();
    let supply = supply(mint).unwrap_or_default().saturating_add(more);
    data[SUPPLY].copy_from_slice(&supply.to_le_bytes());
    account(mint.lamports(), data)
}

/// What is in circulation of a mint.
pub(super) fn supply(mint: &AccountSharedData) -> Option<u64> {
    number(mint.data(), SUPPLY)
}

/// The decimals of a mint.
pub(super) fn decimals(mint: &AccountSharedData) -> Option<u8> {
    mint.data().get(DECIMALS).copied()
}

/// A token account of `owner` with nothing in it.
pub(super) fn empty(lamports: u64, mint: &Key, owner: &Key) -> AccountSharedData {
    let mut data = vec![0; ACCOUNT_SIZE];
    data[MINT].copy_from_slice(mint);
    data[OWNER].copy_from_slice(owner);
    data[STATE] = USABLE;
    account(lamports, data)
}

/// The same token account with so much more in it.
pub(super) fn with_more(token: &AccountSharedData, more: u64) -> AccountSharedData {
    let mut data = token.data().to_vec();
    let amount = number(&data, AMOUNT).unwrap_or_default().saturating_add(more);
    data[AMOUNT].copy_from_slice(&amount.to_le_bytes());
    account(token.lamports(), data)
}

/// The same token account, of which `delegate` may take so much.
pub(super) fn with_delegate(token: &AccountSharedData, delegate: &Key, amount: u64) -> AccountSharedData {
    let mut data = token.data().to_vec();
    data[DELEGATE].copy_from_slice(&[&1_u32.to_le_bytes()[..], delegate].concat());
    data[DELEGATED].copy_from_slice(&amount.to_le_bytes());
    account(token.lamports(), data)
}

/// What is in an account, if it is a token account.
pub(super) fn held(account: &AccountSharedData) -> Option<Held> {
    let (program, data) = (account.owner().to_bytes(), account.data());
    if !ids::is_token_program(&program) || data.len() < ACCOUNT_SIZE || data[STATE] == 0 {
        return None;
    }
    let key = |at: std::ops::Range<usize>| data.get(at)?.try_into().ok();
    Some(Held { mint: key(MINT)?, owner: key(OWNER)?, amount: number(data, AMOUNT)?, program })
}
