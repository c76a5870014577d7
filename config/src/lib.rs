//! Configuration: one TOML file a role, every key overridable by environment, unknown keys refused by name.
//!
//! The gateway reads `GW_` variables with `__` between levels: `GW_HTTP__LISTEN` is `listen` in `[http]`, and
//! `GW_CHAINS__0__RPC_URL` is `rpc_url` of the first `[[chains]]`. Other variables
//! without `__` than `GW_CHAINS` are none of ours to read. The verifier reads `GW_VERIFIER_` variables:
//! `GW_VERIFIER_LISTEN`; a selector reads `GW_SELECTOR_` variables, a settler `GW_SETTLER_` variables. Numbers, arrays and
//! tables are written as in TOML, text without quotes unless it looks like one of those; an empty variable counts as unset.
//!
//! Two keys are of every file: `chains_file` names one with the `[[chains]]` that all roles of an operator share, over which a role's own
//! sections are laid, and `passphrase_file` one with the passphrase of the keystores. Both are relative to the file that
//! they stand in, as are the files of keys: where a private key may stand, `{ keystore = "…" }` or `{ secret_file = "…" }`
//! may, too.
//!
//! A role has a file of its own, and the rules of its values beside the types. `chain` is what all roles say of chains.

mod auditor;
mod chain;
pub mod chains_toml;
pub mod examples;
mod gateway;
mod http;
pub mod keystore;
mod limits;
mod metrics;
pub mod networks;
mod rules;
mod selector;
mod source;
mod verifier;
mod verifier_set;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};

pub use net::callers::limits::{LimitsConfig, Networks, ProxyHeader, RateConfig};

use self::source::Source;
pub use self::{
    auditor::{AUDITOR_INBOX_PREFIX, AuditorConfig, AuditorNatsConfig},
    chain::{
        ContractRef, GatewayChain,
        account_key::{AccountKey, CheckedKey, DistantKey, KeyService, Signs},
        family_rules::account_of,
    },
    gateway::{
        AuditConfig, ConsoleConfig, ConsoleOperator, ContextConfig, CounterpartyConfig, DeadlinesConfig,
        DefaultVerifierConfig, GatewayConfig, IdentityConfig, JournalConfig, NamingConfig, NatsConfig,
        PolicyRecordConfig, ProjectionsConfig, ReleaseConfig, SettlerPausesConfig, SettlerPolicyConfig, SettlersConfig,
        TrustConfig, VerifierEndpoint, VerifierMemberConfig, WatchdogConfig, WebhooksConfig, X402Config,
        check_operator_name,
    },
    http::HttpConfig,
    metrics::MetricsConfig,
    rules::signing_key,
    selector::{Scheme, SelectorConfig, SelectorNatsConfig, SelectorRule},
    source::{KeyForm, KeyPlace, key_places},
    verifier::{CallersConfig, SetMemberConfig, VerifierConfig, VerifierHttpConfig, VerifierSetConfig},
    verifier_set::{account_key, chains_of, fits_on_solana},
};

/// Longest synchronous hold of a submission, in milliseconds (spec 8).
pub const HOLD_MS_LIMIT: u64 = 30_000;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or a variable cannot be read as this configuration; the text names key and source.
    #[error("{0}")]
    Unreadable(Box<figment::Error>),
    /// The file is not TOML. What stands there is not repeated: it may be a secret.
    #[error("{}: line {line}, column {column}: is not TOML; texts stand in quotes", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// A value breaks a rule.
    #[error("{key}: {rule}")]
    Invalid {
        /// The key, as a path such as `chains[0].rpc_url`.
        key: String,
        /// The rule.
        rule: String,
    },
}

/// A text that is never shown: private keys and seeds.
///
/// In a file it is a text; an array of bytes, as `solana-keygen` writes a keypair, is the same as its text.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "SecretForm")]
pub struct Secret(String);

#[derive(Deserialize)]
#[serde(untagged, expecting = "must be a text, or an array of bytes")]
enum SecretForm {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<SecretForm> for Secret {
    fn from(form: SecretForm) -> Self {
        match form {
            SecretForm::Text(text) => Self(text),
            SecretForm::Bytes(bytes) => Self(format!("{bytes:?}")),
        }
    }
}

impl Secret {
    /// A secret with this content.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The content, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Reads the configuration of `gw settler` from the file at `path` with the environment's overrides. `T` is
/// `settler::Config`, whose own rules are checked by its `options`.
///
/// # Errors
/// See [`Error`].
pub fn settler<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    read_settler(path, Source::environment())
}

fn read_settler<T: DeserializeOwned>(path: &Path, variables: Vec<(String, String)>) -> Result<T, Error> {
    // The first names the file, and is not a key in it.
    let is_ours = |key: &str| key != "config";
    Source { prefix: "GW_SETTLER_", is_ours }.extract(path, variables)
}

fn nats_url() -> String {
    "nats://127.0.0.1:4222".to_owned()
}

#[cfg(test)]
mod tests;
