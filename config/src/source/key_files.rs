//! Keys in files of their own: where a private key may stand, `{ keystore = "keys/reserver.json" }` names an encrypted one and
//! `{ secret_file = "/run/credentials/reserver" }` one in the clear, as secret stores mount them.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use figment::value::{Dict, Value};
use tracing::warn;

use crate::{
    Error,
    keystore::{self, Passphrase},
    rules::invalid,
};

/// The key that names the passphrase's file.
const PASSPHRASE_FILE: &str = "passphrase_file";
const KEYSTORE: &str = "keystore";
const SECRET_FILE: &str = "secret_file";
/// Whoever may read the file besides its owner.
const OTHERS: u32 = 0o077;
/// A file with a key is not longer.
const SECRET_BYTES_MAX: u64 = 4096;
/// Where this is set nobody is warned of keys in the clear: on development networks they are known to everyone.
const PLAINTEXT_IS_FINE: &str = "GW_DEVELOPMENT_KEYS";
/// The keys of all roles under which private keys stand.
const SECRETS: [&str; 12] = [
    "checkpoint_key",
    "evm_private_key",
    "exit_submitter_keys",
    "key",
    "releaser_key",
    "reserver_key",
    "seed",
    "solana_private_key",
    "solana_releaser_key",
    "submitter_keys",
    "tron_private_key",
    "tron_releaser_key",
];

/// Takes out the path of the passphrase's file, which is relative to the file that it stands in.
pub(super) fn take_passphrase_file(keys: &mut Dict, directory: &Path) -> Result<Option<PathBuf>, Error> {
    let Some(named) = keys.remove(PASSPHRASE_FILE) else { return Ok(None) };
    let named = named.as_str().ok_or_else(|| invalid(PASSPHRASE_FILE, "must be a text, the path of a file"))?;
    Ok(Some(directory.join(named)))
}

/// Warns of private keys that stand in the file itself.
pub(super) fn warn_of_plaintext(path: &Path, keys: &Dict) {
    let mut found = Vec::new();
    for (name, value) in keys {
        plaintext(name, name, value, &mut found);
    }
    if !found.is_empty() && std::env::var_os(PLAINTEXT_IS_FINE).is_none() {
        let keys = found.join(", ");
        warn!(
            file = %path.display(), keys,
            "PRIVATE KEYS STAND IN THE CONFIGURATION IN THE CLEAR: `gw keys import` puts them into keystores"
        );
    }
}

fn plaintext(path: &str, name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Dict(_, keys) => {
            for (name, value) in keys {
                plaintext(&format!("{path}.{name}"), name, value, found);
            }
        }
        // A keypair as solana-keygen writes it.
        Value::Array(_, values) if matches!(values.first(), Some(Value::Num(..))) && SECRETS.contains(&name) => {
            found.push(path.to_owned());
        }
        Value::Array(_, values) => {
            for (index, value) in values.iter().enumerate() {
                plaintext(&format!("{path}[{index}]"), name, value, found);
            }
        }
        Value::String(_, text) if SECRETS.contains(&name) && !text.is_empty() => found.push(path.to_owned()),
        _ => {}
    }
}

/// Reads the files of keys that a configuration names.
pub(super) struct KeyFiles<'a> {
    directory: &'a Path,
    passphrase: Passphrase,
}

impl<'a> KeyFiles<'a> {
    /// For a configuration whose paths are relative to `directory`.
    pub(super) fn new(directory: &'a Path, passphrase_file: Option<PathBuf>) -> Self {
        Self { directory, passphrase: Passphrase::new(passphrase_file) }
    }

    /// Puts keys in the place of all names of files below `value`, which stands at `path`; whether there were any.
    pub(super) fn put_in(&mut self, path: &str, value: &mut Value) -> Result<bool, Error> {
        match value {
            Value::Dict(tag, keys) => {
                if let Some(secret) = self.named(path, keys)? {
                    *value = Value::String(*tag, secret);
                    return Ok(true);
                }
                let mut any = false;
                for (name, value) in keys {
                    any |= self.put_in(&format!("{path}.{name}"), value)?;
                }
                Ok(any)
            }
            Value::Array(_, values) => {
                let mut any = false;
                for (index, value) in values.iter_mut().enumerate() {
                    any |= self.put_in(&format!("{path}[{index}]"), value)?;
                }
                Ok(any)
            }
            _ => Ok(false),
        }
    }

    /// The key in the file that a table names, if it does.
    fn named(&mut self, path: &str, keys: &Dict) -> Result<Option<String>, Error> {
        let file = |name: &str| keys.get(name).filter(|_| keys.len() == 1).and_then(Value::as_str);
        if let Some(named) = file(KEYSTORE) {
            let wrong = |rule: String| invalid(path, format!("keystore {named}: {rule}"));
            let passphrase = self.passphrase.get().map_err(wrong)?;
            let secret = keystore::open(&self.directory.join(named), passphrase);
            return secret.map(|secret| Some(secret.expose().to_owned())).map_err(|error| wrong(error.to_string()));
        }
        let Some(named) = file(SECRET_FILE) else { return Ok(None) };
        let wrong = |rule: String| invalid(path, format!("secret_file {named}: {rule}"));
        read_secret(&self.directory.join(named)).map(Some).map_err(wrong)
    }
}

/// The key in a file in the clear.
fn read_secret(path: &Path) -> Result<String, String> {
    let told = fs::metadata(path).map_err(|error| error.to_string())?;
    if told.len() > SECRET_BYTES_MAX {
        return Err("is too long to be a key".to_owned());
    }
    if told.is_file() && told.mode() & OTHERS != 0 {
        warn!(file = %path.display(), "others may read this file with a private key: chmod 600");
    }
    // What stands there is not repeated, not even where it is no text.
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {}", error.kind()))?;
    let text = text.trim();
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}
