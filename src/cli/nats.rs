//! `gw nats`.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use clap::{Args as ClapArgs, Subcommand};
use ed25519_dalek::SigningKey;
use rand::rngs::OsRng;

use journal_jetstream::connection::{Identity, nkey, nkey_seed};

use crate::nats::{self, Users, certificates};

/// Arguments of `gw nats`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make what nats.conf includes: new keys for gateway, operator and one auditor, a certificate authority and a server's
    /// certificate, no settler. Refuses a directory that has any of it.
    Init {
        /// The directory `nats` beside nats.conf.
        #[arg(long, default_value = "nats")]
        directory: PathBuf,
        /// Under which host name or IP address clients and other servers reach this server, besides localhost and 127.0.0.1; may
        /// be given several times.
        #[arg(long = "name")]
        names: Vec<String>,
    },
    /// Make a new certificate for a server from the authority that `init` made: before the old one ends, or for one more
    /// server of a cluster on a copy of the directory.
    Certs {
        /// The directory that `init` made.
        #[arg(long, default_value = "nats")]
        directory: PathBuf,
        /// As for `init`.
        #[arg(long = "name")]
        names: Vec<String>,
    },
    /// Show the public key for nats/keys.conf of the seed in a file; makes a new seed where there is no such file.
    Key {
        /// The file.
        #[arg(long)]
        seed_file: PathBuf,
    },
}

/// Makes or shows what was asked for.
///
/// # Errors
/// When a file exists, cannot be read or cannot be written.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Init { directory, names } => init(directory, &with_loopback(names)),
        Command::Certs { directory, names } => {
            let names = &with_loopback(names);
            let directory = absolute(directory)?;
            let key = directory.join("ca.key");
            let key = fs::read_to_string(&key).with_context(|| format!("read {}", key.display()))?;
            let server = certificates::server(&key, names)?;
            // A server that reads them in between finds a pair that does not fit, and keeps what it has.
            replace(&directory.join("server.key"), &server.key, 0o600)?;
            replace(&directory.join("server.pem"), &server.certificate, 0o644)?;
            // A copy may lie elsewhere than the original.
            replace(&directory.join("tls.conf"), &nats::tls(&directory), 0o644)?;
            replace(&directory.join("routes.conf"), &nats::routes(&directory), 0o644)?;
            let place = directory.display();
            super::answer(&format!("{place}/server.pem is for {}; nats-server --signal reload", names.join(", ")))
        }
        Command::Key { seed_file } => {
            if !seed_file.exists() {
                create(seed_file, &seed(&SigningKey::generate(&mut OsRng)), 0o600)?;
            }
            super::answer(&Identity::in_file(seed_file)?.nkey()?)
        }
    }
}

/// What is said on the server's machine itself holds, too, whatever it is called elsewhere.
fn with_loopback(names: &[String]) -> Vec<String> {
    let mut all: Vec<String> = ["localhost", "127.0.0.1"].map(str::to_owned).into();
    for name in names {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    all
}

fn init(directory: &Path, names: &[String]) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
    let directory = absolute(directory)?;
    let [gateway, operator, auditor] = [(); 3].map(|()| SigningKey::generate(&mut OsRng));
    let public = |key: &SigningKey| nkey(&key.verifying_key());
    let users = Users {
        gateway: public(&gateway),
        operator: public(&operator),
        auditors: vec![public(&auditor)],
        selectors: Vec::new(),
        settlers: Vec::new(),
    };
    let authority = certificates::authority()?;
    let server = certificates::server(&authority.key, names)?;
    let files = [
        ("gateway.seed", seed(&gateway), 0o600),
        ("operator.seed", seed(&operator), 0o600),
        ("auditor.seed", seed(&auditor), 0o600),
        ("ca.key", authority.key, 0o600),
        ("ca.pem", authority.certificate, 0o644),
        ("server.key", server.key, 0o600),
        ("server.pem", server.certificate, 0o644),
        ("tls.conf", nats::tls(&directory), 0o644),
        ("routes.conf", nats::routes(&directory), 0o644),
        ("accounts.conf", users.accounts()?, 0o644),
        // The last: where it stands, everything does.
        ("keys.conf", users.keys(), 0o644),
    ];
    if let Some((name, ..)) = files.iter().find(|(name, ..)| directory.join(name).exists()) {
        ensure!(false, "{} exists; nothing was written", directory.join(name).display());
    }
    for (name, text, mode) in &files {
        create(&directory.join(name), text, *mode)?;
    }
    super::answer(&format!(
        "{place} is made, with a server's certificate for {names}.\n\
         Secret: *.seed (each to who holds the role), ca.key (keep it away from the servers), server.key.\n\
         To gateways, settlers and auditors goes ca.pem, as `ca_file` in their [nats].\n\
         Settlers and selectors are admitted in accounts.conf: `gw settler id`, `gw selector id`.",
        place = directory.display(),
        names = names.join(", "),
    ))
}

fn seed(key: &SigningKey) -> String {
    nkey_seed(key) + "\n"
}

fn absolute(directory: &Path) -> Result<PathBuf> {
    fs::canonicalize(directory).with_context(|| format!("find {}", directory.display()))
}

/// Writes a file that is not there yet.
fn create(path: &Path, text: &str, mode: u32) -> Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.with_context(|| format!("create {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("write {}", path.display()))
}

/// Puts a file in the place of another in one step.
fn replace(path: &Path, text: &str, mode: u32) -> Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    create(&new, text, mode)?;
    fs::rename(&new, path).with_context(|| format!("replace {}", path.display()))
}
