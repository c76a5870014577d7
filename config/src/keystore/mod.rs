//! Keystores: keys in files, encrypted with a passphrase, in the form that wallets use (Web3 Secret Storage, version 3).
//!
//! One form for keys of every kind. What is encrypted tells them apart: 32 bytes are a private key of secp256k1 or an
//! Ed25519 seed, 64 bytes a Solana keypair.

mod passphrase;

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use eth_keystore::{EthKeystore, KdfparamsType};
use rand::rngs::OsRng;

use super::Secret;

pub use self::passphrase::Passphrase;

/// Bytes of the key that the passphrase gives, and of the cipher's vector.
const KEY_BYTES: usize = 32;
const IV_BYTES: usize = 16;
/// What wallets ask for is a quarter of this at most: 2^18 · 8 · 1.
const WORK_MAX: u64 = 1 << 23;

/// Why a keystore cannot be read or written. It tells nothing of what is in it.
#[derive(Debug, thiserror::Error)]
pub enum KeystoreError {
    /// The file cannot be read or written.
    #[error("{0}")]
    File(#[from] io::Error),
    /// It is no keystore.
    #[error("is no keystore: {0}")]
    Form(String),
    /// The passphrase is another.
    #[error("cannot be decrypted with this passphrase")]
    Passphrase,
    /// The key is neither 32 nor 64 bytes long.
    #[error("holds {0} bytes, which is no key: one has 32, a Solana keypair 64")]
    Length(usize),
}

/// The key in a keystore, as text: `0x` and hex digits, a Solana keypair in Base58.
///
/// # Errors
/// [`KeystoreError`].
pub fn open(path: &Path, passphrase: &str) -> Result<Secret, KeystoreError> {
    check(&fs::read(path)?)?;
    let key = eth_keystore::decrypt_key(path, passphrase).map_err(|error| match error {
        eth_keystore::KeystoreError::MacMismatch => KeystoreError::Passphrase,
        other => KeystoreError::Form(other.to_string()),
    })?;
    match key.len() {
        32 => Ok(Secret::new(format!("0x{}", hex::encode(key)))),
        64 => Ok(Secret::new(bs58::encode(key).into_string())),
        length => Err(KeystoreError::Length(length)),
    }
}

/// Refuses what the library would panic at, or work on for minutes.
fn check(text: &[u8]) -> Result<(), KeystoreError> {
    let form = |rule: &str| KeystoreError::Form(rule.to_owned());
    let EthKeystore { crypto, .. } =
        serde_json::from_slice(text).map_err(|_| form("is not JSON of Web3 Secret Storage, version 3"))?;
    let (length, work) = match crypto.kdfparams {
        KdfparamsType::Scrypt { dklen, n, p, r, .. } => {
            (dklen, [n, r, p].map(u64::from).iter().fold(1, |work: u64, factor| work.saturating_mul(*factor)))
        }
        KdfparamsType::Pbkdf2 { dklen, c, .. } => (dklen, u64::from(c)),
    };
    if usize::from(length) != KEY_BYTES || crypto.cipherparams.iv.len() < IV_BYTES {
        return Err(form("its key or its vector has another length"));
    }
    if work > WORK_MAX { Err(form("its passphrase takes too much work to try")) } else { Ok(()) }
}

/// Writes a key of 32 or 64 bytes into a new file that only its owner can read.
///
/// # Errors
/// [`KeystoreError`], also where there is such a file.
pub fn create(path: &Path, key: &[u8], passphrase: &str) -> Result<(), KeystoreError> {
    if !matches!(key.len(), 32 | 64) {
        return Err(KeystoreError::Length(key.len()));
    }
    // The library names and writes a file of its own: it is made in a place of its own, and copied to one that is new.
    let place = tempfile::Builder::new().prefix(".keystore").tempdir_in(path.parent().unwrap_or(Path::new(".")))?;
    let name = "key";
    eth_keystore::encrypt_key(place.path(), &mut OsRng, key, passphrase, Some(name))
        .map_err(|error| KeystoreError::Form(error.to_string()))?;
    let text = fs::read(place.path().join(name))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&text)?;
    file.sync_all()?;
    Ok(())
}
