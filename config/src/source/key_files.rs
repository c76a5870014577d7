//! Keys in files of their own: where a private key may stand, `{ keystore = "keys/reserver.json" }` names an encrypted one and
//! `{ secret_file = "/run/credentials/reserver" }` one in the clear, as secret stores mount them.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use figment::value::{Dict, Value};
use tracing::warn;
use url::Url;

use crate::{
    Error,
    keystore::{self, Passphrase},
    rules::invalid,
};

/// The key that names the passphrase's file.
const PASSPHRASE_FILE: &str = "passphrase_file";
const CHAIN_ID: &str = "chain_id";
const KEYSTORE: &str = "keystore";
const SECRET_FILE: &str = "secret_file";
const WEB3SIGNER: &str = "web3signer";
const KMS: &str = "kms";
/// Whoever may read the file besides its owner.
const OTHERS: u32 = 0o077;
/// A file with a key is not longer.
const SECRET_BYTES_MAX: u64 = 4096;
/// Where this is set nobody is warned of keys in the clear: on development networks they are known to everyone.
const PLAINTEXT_IS_FINE: &str = "GW_DEVELOPMENT_KEYS";
/// The keys of all roles under which private keys stand.
const SECRETS: [&str; 15] = [
    "checkpoint_key",
    "draining_reserver_keys",
    "draining_submitter_keys",
    "evm_private_key",
    "exit_submitter_keys",
    "former_keys",
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
    let places = places(keys);
    let found: Vec<_> =
        places.iter().filter(|place| place.form == KeyForm::InTheClear).map(|place| place.path.as_str()).collect();
    if !found.is_empty() && std::env::var_os(PLAINTEXT_IS_FINE).is_none() {
        let keys = found.join(", ");
        warn!(
            file = %path.display(), keys,
            "PRIVATE KEYS STAND IN THE CONFIGURATION IN THE CLEAR: `gw keys import` puts them into keystores"
        );
    }
}

/// How a private key stands in a role's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyForm {
    /// In the encrypted file of this name.
    Keystore(String),
    /// In the file of this name, in the clear.
    SecretFile(String),
    /// In the role's file itself, in the clear.
    InTheClear,
    /// At the Web3Signer of this origin.
    Web3Signer(String),
    /// In AWS KMS, under this ARN, id or alias.
    Kms(String),
}

/// A place in a role's file at which a private key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPlace {
    /// Where: `audit.checkpoint_key`, `chains[1].submitter_keys[0]`.
    pub path: String,
    /// The chain whose section it is in, as the section names it.
    pub chain_id: Option<String>,
    /// The key's own name, with its number in a list: `submitter_keys[0]`.
    pub name: String,
    /// How it stands there.
    pub form: KeyForm,
}

/// The private keys of a file, in the order of their names. What they are is not looked at.
pub(super) fn places(keys: &Dict) -> Vec<KeyPlace> {
    let mut found = Vec::new();
    for (name, value) in keys {
        Walk { chain_id: None, found: &mut found }.at(name, name, name, value);
    }
    found
}

/// Looks for keys below one section.
struct Walk<'a> {
    chain_id: Option<String>,
    found: &'a mut Vec<KeyPlace>,
}

impl Walk<'_> {
    /// `value` stands at `path`; `own` is the last key on it, with its number, and `name` without.
    fn at(&mut self, path: &str, own: &str, name: &str, value: &Value) {
        let is_secret = SECRETS.contains(&name);
        match value {
            Value::Dict(_, keys) => {
                if let Some(form) = named(keys).filter(|_| is_secret) {
                    return self.note(path, own, form);
                }
                let chain_id = keys.get(CHAIN_ID).and_then(Value::as_str).map(str::to_owned);
                let chain_id = chain_id.or_else(|| self.chain_id.clone());
                for (name, value) in keys {
                    Walk { chain_id: chain_id.clone(), found: &mut *self.found }.at(
                        &format!("{path}.{name}"),
                        name,
                        name,
                        value,
                    );
                }
            }
            // A keypair as solana-keygen writes it.
            Value::Array(_, values) if is_secret && matches!(values.first(), Some(Value::Num(..))) => {
                self.note(path, own, KeyForm::InTheClear);
            }
            Value::Array(_, values) => {
                for (index, value) in values.iter().enumerate() {
                    self.at(&format!("{path}[{index}]"), &format!("{own}[{index}]"), name, value);
                }
            }
            Value::String(_, text) if is_secret && !text.is_empty() => self.note(path, own, KeyForm::InTheClear),
            _ => {}
        }
    }

    fn note(&mut self, path: &str, own: &str, form: KeyForm) {
        let (path, name) = (path.to_owned(), own.to_owned());
        self.found.push(KeyPlace { path, chain_id: self.chain_id.clone(), name, form });
    }
}

/// The file or the service that a table names in the place of a key, if it does.
fn named(keys: &Dict) -> Option<KeyForm> {
    let file = |name: &str| keys.get(name).filter(|_| keys.len() == 1).and_then(Value::as_str).map(str::to_owned);
    let service = || {
        if let Some(key_id) = keys.get(KMS).and_then(Value::as_str) {
            return Some(KeyForm::Kms(key_id.to_owned()));
        }
        let address = keys.get(WEB3SIGNER).and_then(Value::as_str)?;
        // The address may hold a password; what cannot be read is refused elsewhere.
        let origin = Url::parse(address).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization());
        Some(KeyForm::Web3Signer(origin))
    };
    file(KEYSTORE).map(KeyForm::Keystore).or_else(|| file(SECRET_FILE).map(KeyForm::SecretFile)).or_else(service)
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
        match named(keys) {
            Some(KeyForm::Keystore(named)) => {
                let wrong = |rule: String| invalid(path, format!("keystore {named}: {rule}"));
                let passphrase = self.passphrase.get().map_err(wrong)?;
                let secret = keystore::open(&self.directory.join(&named), passphrase);
                secret.map(|secret| Some(secret.expose().to_owned())).map_err(|error| wrong(error.to_string()))
            }
            Some(KeyForm::SecretFile(named)) => {
                let wrong = |rule: String| invalid(path, format!("secret_file {named}: {rule}"));
                read_secret(&self.directory.join(&named)).map(Some).map_err(wrong)
            }
            Some(KeyForm::InTheClear | KeyForm::Web3Signer(_) | KeyForm::Kms(_)) | None => Ok(None),
        }
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
