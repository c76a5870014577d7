//! Wrapping SOL: the instructions by which a wallet turns its own lamports into wrapped SOL, a token of SPL Token that the
//! program can draw on.

use chains::config::NATIVE_MINT;
use events::{Account, AssetId};
use gateway_program::{
    Key,
    host::{self, AccountMeta, Instruction},
    ids,
};

use super::program::{ConvertError, key, mint, parse_key};

/// The program of wrapped SOL: SPL Token. The native mint of Token-2022 is another token.
pub const TOKEN_PROGRAM: Key = ids::TOKEN_PROGRAM;
/// The token program's `SyncNative`: the account's balance becomes the lamports that it holds besides its rent.
const SYNC_NATIVE: u8 = 17;
/// The system program's `Transfer`.
const TRANSFER: u32 = 2;

/// Whether the asset is wrapped SOL.
pub fn is_wrapped_sol(asset: &AssetId) -> bool {
    mint(asset).is_ok_and(|mint| parse_key(NATIVE_MINT) == Ok(mint))
}

/// The token account of wrapped SOL of a wallet.
///
/// # Errors
/// [`ConvertError`] when `wallet` is not a Solana account.
pub fn token_account(wallet: &Account) -> Result<Key, ConvertError> {
    Ok(host::associated_token_address(&key(wallet)?, &TOKEN_PROGRAM, &parse_key(NATIVE_MINT)?).key)
}

/// What wraps `lamports` of the wallet's, in this order: its token account is made where it is not there, the lamports go
/// to it, and the token program counts them. The wallet signs, and pays the rent of a new account besides.
///
/// # Errors
/// [`ConvertError`] when `wallet` is not a Solana account.
pub fn wrap(wallet: &Account, lamports: u64) -> Result<[Instruction; 3], ConvertError> {
    let (owner, account) = (key(wallet)?, token_account(wallet)?);
    let create = host::create_associated_token(owner, &owner, &parse_key(NATIVE_MINT)?, &TOKEN_PROGRAM);
    let transfer = Instruction {
        program_id: ids::SYSTEM_PROGRAM,
        accounts: vec![
            AccountMeta { key: owner, signer: true, writable: true },
            AccountMeta { key: account, signer: false, writable: true },
        ],
        data: [&TRANSFER.to_le_bytes()[..], &lamports.to_le_bytes()].concat(),
    };
    let sync = Instruction {
        program_id: TOKEN_PROGRAM,
        accounts: vec![AccountMeta { key: account, signer: false, writable: true }],
        data: vec![SYNC_NATIVE],
    };
    Ok([create, transfer, sync])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_native_mint_of_spl_token_is_wrapped_sol() {
        let asset = |text: &str| format!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/{text}").parse::<AssetId>().unwrap();
        assert!(is_wrapped_sol(&asset("token:So11111111111111111111111111111111111111112")));
        for other in ["slip44:501", "token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"] {
            assert!(!is_wrapped_sol(&asset(other)), "{other}");
        }
    }
}
