//! `gw keys`: makes keystores, and shows whose keys they are.

mod list;

use std::{
    fs,
    io::{Read, stdin},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use ed25519_dalek::SigningKey;
use rand::{RngCore, rngs::OsRng};

use config::{
    Secret,
    keystore::{self, Passphrase},
};
use events::{Did, Family};

/// A key that is imported is not longer.
const KEY_BYTES_MAX: u64 = 4096;

/// Arguments of `gw keys`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// File with the passphrase; asked for without it.
    #[arg(long, env = "GW_PASSPHRASE_FILE", global = true)]
    passphrase_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key, in a keystore that is not there yet.
    New {
        /// What it is for.
        #[arg(long, value_enum)]
        kind: Kind,
        /// The keystore.
        keystore: PathBuf,
    },
    /// Put a key that there is already into a keystore: 0x and 64 hex digits, a Solana keypair in Base58 or as solana-keygen
    /// writes it.
    Import {
        /// File with the key; standard input without it.
        #[arg(long)]
        from: Option<PathBuf>,
        /// The keystore, which is not there yet.
        keystore: PathBuf,
    },
    /// Show the keys of a role's file: what each is used for, how it is kept, and what its account holds.
    List(list::Args),
    /// Show the accounts of the keys in keystores, and nothing that is secret.
    Show {
        /// The keystores.
        #[arg(required = true)]
        keystores: Vec<PathBuf>,
    },
}

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// An account on EVM and Tron chains.
    Evm,
    /// An account on Solana.
    Solana,
    /// A DID: of a gateway or a settler, of checkpoints.
    Ed25519,
}

/// Makes, imports or shows keys.
///
/// # Errors
/// When a keystore is there already, or cannot be opened with the passphrase.
pub async fn run(args: &Args) -> Result<()> {
    if let Command::List(args) = &args.command {
        return list::run(args).await;
    }
    let file = args.passphrase_file.clone();
    let mut passphrase = match &args.command {
        Command::New { .. } | Command::Import { .. } => Passphrase::for_new(file),
        _ => Passphrase::new(file),
    };
    let passphrase = passphrase.get().map_err(anyhow::Error::msg)?;
    match &args.command {
        Command::New { kind, keystore } => create(keystore, &kind.key(), passphrase),
        Command::Import { from, keystore } => create(keystore, &imported(from.as_deref())?, passphrase),
        // It reads keystores as its role does.
        Command::List(_) => Ok(()),
        Command::Show { keystores } => keystores.iter().try_for_each(|path| show(path, passphrase)),
    }
}

impl Kind {
    fn key(self) -> Vec<u8> {
        match self {
            Self::Evm => {
                // Any 32 bytes are a key but those beyond the curve's order, which nobody will ever draw.
                let mut key = vec![0; 32];
                OsRng.fill_bytes(&mut key);
                key
            }
            Self::Solana => SigningKey::generate(&mut OsRng).to_keypair_bytes().to_vec(),
            Self::Ed25519 => SigningKey::generate(&mut OsRng).to_bytes().to_vec(),
        }
    }
}

fn create(path: &Path, key: &[u8], passphrase: &str) -> Result<()> {
    keystore::create(path, key, passphrase).with_context(|| path.display().to_string())?;
    show(path, passphrase)
}

/// The bytes of a key that somebody has as text. What it says is not repeated.
fn imported(from: Option<&Path>) -> Result<Vec<u8>> {
    let mut text = String::new();
    match from {
        Some(path) => {
            let file = fs::File::open(path).with_context(|| format!("open {}", path.display()))?;
            file.take(KEY_BYTES_MAX).read_to_string(&mut text).with_context(|| format!("read {}", path.display()))?;
        }
        None => {
            stdin().take(KEY_BYTES_MAX).read_to_string(&mut text).context("read standard input")?;
        }
    }
    let text = text.trim();
    if let Ok(keypair) = chains_solana::keys::keypair(text) {
        return Ok(keypair.to_keypair_bytes().to_vec());
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match data_encoding::HEXLOWER_PERMISSIVE.decode(digits.as_bytes()) {
        Ok(key) if key.len() == 32 => Ok(key),
        _ => bail!("the key is neither 0x and 64 hex digits, nor a Solana keypair"),
    }
}

/// Shows all that a key can be: its use decides which it is.
fn show(path: &Path, passphrase: &str) -> Result<()> {
    let secret = keystore::open(path, passphrase).with_context(|| path.display().to_string())?;
    let names = names(&secret);
    ensure!(!names.is_empty(), "{}: holds no key that is known here", path.display());
    let lines = names.iter().map(|(what, name)| format!("  {what:<8} {name}"));
    super::answer(&format!("{}\n{}", path.display(), lines.collect::<Vec<_>>().join("\n")))
}

fn names(secret: &Secret) -> Vec<(&'static str, String)> {
    let account = |family| config::account_of(family, "key", secret).ok();
    let did = config::signing_key(secret).map(|key| Did::from_ed25519(&key.verifying_key()).to_string());
    let named = [
        ("EVM", account(Family::Evm)),
        ("Tron", account(Family::Tron)),
        ("Solana", account(Family::Solana)),
        ("DID", did),
    ];
    named.into_iter().filter_map(|(what, name)| Some((what, name?))).collect()
}
