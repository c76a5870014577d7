//! The keys that `gw init` makes: keystores under `keys/`, all with one passphrase.

use std::{
    fs::{self, OpenOptions},
    io::{IsTerminal, Write, stdin},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use data_encoding::BASE32_NOPAD;
use ed25519_dalek::SigningKey;
use events::Family;
use rand::{RngCore, rngs::OsRng};

use config::{Secret, keystore};

/// Least length of a passphrase that somebody thinks of, in characters.
const PASSPHRASE_CHARS_MIN: usize = 12;

/// The keys of one directory.
pub(super) struct Keyring {
    directory: PathBuf,
    passphrase: String,
    /// The passphrase's file as roles name it.
    passphrase_file: Option<PathBuf>,
    passphrase_made: Option<PathBuf>,
    made: Vec<String>,
}

impl Keyring {
    /// The keys below `directory`, with the passphrase in a file, which is made where it is not there, or asked for.
    pub(super) fn open(directory: &Path, passphrase_file: Option<&Path>) -> Result<Self> {
        let keys = directory.join("keys");
        fs::create_dir_all(&keys).with_context(|| format!("create {}", keys.display()))?;
        let mut passphrase_made = None;
        let (passphrase, named) = match passphrase_file {
            Some(path) => {
                if !path.exists() {
                    create(path, format!("{}\n", random_passphrase()).as_bytes(), 0o600)?;
                    passphrase_made = Some(path.to_owned());
                }
                let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
                let path = fs::canonicalize(path).with_context(|| format!("find {}", path.display()))?;
                (text.trim_end_matches(['\r', '\n']).to_owned(), Some(path))
            }
            None => (asked_for()?, None),
        };
        ensure!(!passphrase.is_empty(), "the passphrase is empty");
        let directory = directory.to_owned();
        Ok(Self { directory, passphrase, passphrase_file: named, passphrase_made, made: Vec::new() })
    }

    /// The key `name` of an account of a family; a new one where there is none.
    pub(super) fn account(&mut self, name: &str, family: Family) -> Result<(String, String)> {
        let name = format!("{name}-{}", token(family));
        let key = || match family {
            Family::Evm | Family::Tron => {
                // Any 32 bytes are a key but those beyond the curve's order, which nobody will ever draw.
                let mut key = [0; 32];
                OsRng.fill_bytes(&mut key);
                key.to_vec()
            }
            Family::Solana => SigningKey::generate(&mut OsRng).to_keypair_bytes().to_vec(),
        };
        let (file, secret) = self.key(&name, key)?;
        let account = config::account_of(family, &name, &secret)?;
        Ok((file, account))
    }

    /// The Ed25519 key `name`; a new one where there is none.
    pub(super) fn identity(&mut self, name: &str) -> Result<(String, SigningKey)> {
        let (file, secret) = self.key(name, || SigningKey::generate(&mut OsRng).to_bytes().to_vec())?;
        let key = config::signing_key(&secret).with_context(|| format!("{file} holds no Ed25519 seed"))?;
        Ok((file, key))
    }

    /// The Ed25519 key `name`, where there is one that this passphrase opens.
    pub(super) fn existing(&self, name: &str) -> Option<SigningKey> {
        let secret = keystore::open(&self.path(name), &self.passphrase).ok()?;
        config::signing_key(&secret)
    }

    /// As a role's file names the passphrase's, if it does.
    pub(super) fn passphrase_file(&self) -> Option<&Path> {
        self.passphrase_file.as_deref()
    }

    /// The passphrase's file, where it was made.
    pub(super) fn passphrase_made(&self) -> Option<&Path> {
        self.passphrase_made.as_deref()
    }

    /// The keys that were made.
    pub(super) fn made(&self) -> &[String] {
        &self.made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join("keys").join(format!("{name}.json"))
    }

    /// A keystore as a role's file names it, and its key.
    fn key(&mut self, name: &str, new: impl FnOnce() -> Vec<u8>) -> Result<(String, Secret)> {
        let path = self.path(name);
        if !path.exists() {
            keystore::create(&path, &new(), &self.passphrase).with_context(|| path.display().to_string())?;
            self.made.push(name.to_owned());
        }
        let secret = keystore::open(&path, &self.passphrase).with_context(|| path.display().to_string())?;
        Ok((format!("keys/{name}.json"), secret))
    }
}

/// What the files of a family's keys end with.
pub(super) fn token(family: Family) -> &'static str {
    match family {
        Family::Evm => "evm",
        Family::Solana => "solana",
        Family::Tron => "tron",
    }
}

/// 160 bits, as letters and digits.
fn random_passphrase() -> String {
    let mut bytes = [0; 20];
    OsRng.fill_bytes(&mut bytes);
    BASE32_NOPAD.encode(&bytes).to_ascii_lowercase()
}

fn asked_for() -> Result<String> {
    ensure!(stdin().is_terminal(), "--passphrase-file FILE is needed: nobody is at a terminal to be asked");
    let first = rpassword::prompt_password("New passphrase of the keystores: ").context("ask for the passphrase")?;
    ensure!(
        first.chars().count() >= PASSPHRASE_CHARS_MIN,
        "a passphrase has at least {PASSPHRASE_CHARS_MIN} characters"
    );
    let second = rpassword::prompt_password("Again: ").context("ask for the passphrase")?;
    ensure!(first == second, "the two differ; nothing was written");
    Ok(first)
}

/// Writes a file that is not there yet.
pub(super) fn create(path: &Path, text: &[u8], mode: u32) -> Result<()> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.with_context(|| format!("create {}", path.display()))?;
    file.write_all(text).and_then(|()| file.sync_all()).with_context(|| format!("write {}", path.display()))
}
