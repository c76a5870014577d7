//! Addresses of the programs and sysvars that the gateway's program knows.

use crate::Key;

/// The system program: accounts, native SOL.
pub const SYSTEM_PROGRAM: Key = key("11111111111111111111111111111111");
/// SPL Token.
pub const TOKEN_PROGRAM: Key = key("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
/// SPL Token-2022.
pub const TOKEN_2022_PROGRAM: Key = key("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb");
/// Mint of wrapped native SOL in SPL Token.
pub const NATIVE_MINT: Key = key("So11111111111111111111111111111111111111112");
/// Mint of wrapped native SOL in Token-2022.
pub const NATIVE_MINT_2022: Key = key("9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXejP");
/// The program of associated token accounts.
pub const ASSOCIATED_TOKEN_PROGRAM: Key = key("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL");
/// The precompile that checks Ed25519 signatures.
pub const ED25519_PROGRAM: Key = key("Ed25519SigVerify111111111111111111111111111");
/// The loader whose ProgramData account names a program's upgrade authority.
pub const UPGRADEABLE_LOADER: Key = key("BPFLoaderUpgradeab1e11111111111111111111111");
/// The sysvar that shows the instructions of the running transaction.
pub const INSTRUCTIONS_SYSVAR: Key = key("Sysvar1nstructions1111111111111111111111111");

/// Whether `program` is one of the two token programs.
pub fn is_token_program(program: &Key) -> bool {
    *program == TOKEN_PROGRAM || *program == TOKEN_2022_PROGRAM
}

/// Reads Base58 at compile time; what is no key of 32 bytes does not compile.
const fn key(base58: &str) -> Key {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let text = base58.as_bytes();
    let mut out = [0; 32];
    let mut at = 0;
    while at < text.len() {
        let mut carry = 0;
        while ALPHABET[carry] != text[at] {
            carry += 1;
        }
        let mut byte = 32;
        while byte > 0 {
            byte -= 1;
            carry += out[byte] as usize * 58;
            out[byte] = (carry % 256) as u8;
            carry /= 256;
        }
        assert!(carry == 0);
        at += 1;
    }
    out
}
