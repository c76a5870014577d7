//! The payer's key, out of a keystore of `gw keys`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use config::keystore::{self, Passphrase};
use events::{Account, Family};
use gateway_client::Key;

/// The key in a keystore, with its account on chains of this family.
///
/// # Errors
/// When the keystore cannot be opened, or holds another family's key.
pub fn open(keystore: &Path, passphrase_file: Option<PathBuf>, family: Family) -> Result<(Key, Account)> {
    let mut passphrase = Passphrase::new(passphrase_file);
    let passphrase = passphrase.get().map_err(anyhow::Error::msg)?;
    let secret = keystore::open(keystore, passphrase).with_context(|| keystore.display().to_string())?;
    let of_file = || format!("--key {}", keystore.display());
    let key = Key::parse(family, secret.expose()).with_context(of_file)?;
    let account = key.account(family).context("the key has no account").with_context(of_file)?;
    Ok((key, account))
}
