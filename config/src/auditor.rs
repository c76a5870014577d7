//! Configuration of `gw audit`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use chains::config::ChainConfig;
use events::Did;

use super::{Error, chain, rules, source::Source};

/// What the subjects of auditors' inboxes begin with, as nats.conf has it: auditors may subscribe to nothing else below, and
/// nobody else to this.
pub const AUDITOR_INBOX_PREFIX: &str = "_INBOX_auditor";

/// Configuration of `gw audit`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditorConfig {
    /// The NATS server; not needed where exported files are read.
    pub nats: Option<AuditorNatsConfig>,
    /// The keys whose checkpoints are believed, as did:key. Where none is named, checkpoints are checked against the
    /// messages, but not who signed them.
    #[serde(default)]
    pub checkpoint_signers: Vec<Did>,
    /// File in which the highest checkpoint seen of each shard is remembered from run to run.
    #[serde(default)]
    pub state: Option<PathBuf>,
    /// How long the journal may be behind a chain, in seconds. What a chain shows for longer and the journal does not is
    /// a finding.
    #[serde(default = "lag_seconds")]
    pub lag_seconds: u64,
    /// The chains that are asked.
    #[serde(default)]
    pub chains: Vec<ChainConfig>,
}

/// `[nats]` of an auditor.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditorNatsConfig {
    /// Address, `nats://host:port` or `tls://host:port`; several servers of a cluster are separated by commas.
    #[serde(default = "super::nats_url")]
    pub url: String,
    /// As for a gateway.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// File with the seed of the auditor's NKEY, `SU…`.
    pub seed_file: PathBuf,
    /// What the subjects of its inboxes begin with, as its permissions in nats.conf have it.
    #[serde(default = "inbox_prefix")]
    pub inbox_prefix: String,
}

impl AuditorConfig {
    /// Reads the file at `path` with the environment's overrides and checks every value.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::read(path, Source::environment())
    }

    pub(super) fn read(path: &Path, variables: Vec<(String, String)>) -> Result<Self, Error> {
        let is_ours = |key: &str| key != "config";
        let config: Self = Source { prefix: "GW_AUDITOR_", is_ours }.extract(path, variables)?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Error> {
        let invalid = |key: &str, rule: &str| Error::Invalid { key: key.to_owned(), rule: rule.to_owned() };
        if let Some(nats) = &self.nats {
            rules::nats_url(&nats.url, nats.ca_file.as_deref())?;
            let prefix = &nats.inbox_prefix;
            if prefix.is_empty() || prefix.contains(['*', '>', ' ']) || prefix.split('.').any(str::is_empty) {
                return Err(invalid("nats.inbox_prefix", "must be a subject without wildcards"));
            }
        }
        if let Some(signer) = self.checkpoint_signers.iter().find(|signer| signer.ed25519_key().is_err()) {
            return Err(invalid("checkpoint_signers", &format!("{signer} is not a did:key of an Ed25519 key")));
        }
        if self.chains.is_empty() { Ok(()) } else { chain::check(self.chains.iter()) }
    }
}

fn inbox_prefix() -> String {
    AUDITOR_INBOX_PREFIX.to_owned()
}

fn lag_seconds() -> u64 {
    600
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../auditor.example.toml");

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<AuditorConfig, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("auditor.toml");
        std::fs::write(&path, text).unwrap();
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        AuditorConfig::read(&path, variables).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_names_every_key_and_shows_the_defaults() {
        let plain = read(EXAMPLE, &[]).unwrap();
        let key = |line: &&str| {
            line.starts_with("# ") && line[2..].split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
        };
        let full: Vec<&str> = EXAMPLE.lines().map(|line| if key(&line) { &line[2..] } else { line }).collect();
        let full = full.join("\n");
        assert_ne!(full, EXAMPLE);
        assert_eq!(format!("{:?}", read(&full, &[]).unwrap()), format!("{plain:?}"));
        for key in ["url", "seed_file", "inbox_prefix", "checkpoint_signers", "lag_seconds", "chain_id", "rpc_url"] {
            assert!(full.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key}");
        }
        assert!(EXAMPLE.contains("state, without a default"));
    }

    #[test]
    fn values_are_checked_and_the_environment_overrides() {
        // The first names the file, and is not a key in it.
        let variables =
            [("GW_AUDITOR_CONFIG", "x"), ("GW_AUDITOR_LAG_SECONDS", "7"), ("GW_AUDITOR_NATS__SEED_FILE", "a")];
        let config = read(EXAMPLE, &variables).unwrap();
        assert_eq!((config.lag_seconds, config.nats.unwrap().seed_file), (7, "a".into()));
        for (name, value, key) in [
            ("GW_AUDITOR_NATS__URL", "http://x", "nats.url"),
            ("GW_AUDITOR_NATS__URL", "nats://nats.example", "nats.url"),
            ("GW_AUDITOR_NATS__INBOX_PREFIX", "a..b", "nats.inbox_prefix"),
            ("GW_AUDITOR_CHECKPOINT_SIGNERS", "[\"did:web:x\"]", "checkpoint_signers"),
            ("GW_AUDITOR_CHAINS__0__RPC_URL", "x", "chains[0].rpc_url"),
        ] {
            let error = read(EXAMPLE, &[(name, value)]).unwrap_err();
            assert!(error.starts_with(key), "{error}");
        }
        let error = read(EXAMPLE, &[("GW_AUDITOR_LAG", "7")]).unwrap_err();
        assert!(error.contains("lag"), "{error}");
    }
}
