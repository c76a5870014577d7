//! Configuration: one TOML file a role, every key overridable by environment, unknown keys refused by name.
//!
//! The gateway reads `GW_` variables with `__` between levels: `GW_HTTP__LISTEN` is `listen` in `[http]`, and
//! `GW_CHAINS__0__RPC_URL` is `rpc_url` of the first `[[chains]]`. Other variables
//! without `__` than `GW_CHAINS` are none of ours to read. The verifier reads `GW_VERIFIER_` variables:
//! `GW_VERIFIER_LISTEN`; a selector reads `GW_SELECTOR_` variables, a settler `GW_SETTLER_` variables. Numbers, arrays and
//! tables are written as in TOML, text without quotes unless it looks like one of those; an empty variable counts as unset.
//! All keys stand in the examples, `config/*.example.toml`.

mod auditor;
mod chain;
pub mod examples;
mod families;
mod http;
mod limits;
mod selector;
mod source;
mod validation;
mod verifier;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use async_nats::ConnectOptions;
use serde::Deserialize;

use events::{Did, selection::SelectorKey};
use journal_jetstream::connection::{self, Identity};
pub use net::callers::limits::{LimitsConfig, Networks, ProxyHeader, RateConfig};
use sagas::release::ReleaseRule;

use self::source::Source;
pub use self::{
    auditor::{AuditorConfig, AuditorNatsConfig},
    chain::{ContractRef, GatewayChain},
    http::HttpConfig,
    selector::{Scheme, SelectorConfig, SelectorNatsConfig, SelectorRule},
    validation::signing_key,
    verifier::{CallersConfig, VerifierConfig, VerifierHttpConfig},
};

/// Longest synchronous hold of a submission, in milliseconds (spec 8).
pub const HOLD_MS_LIMIT: u64 = 30_000;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file or a variable cannot be read as this configuration; the text names key and source.
    #[error("{0}")]
    Unreadable(Box<figment::Error>),
    /// The file is no TOML. What stands there is not repeated: it may be a secret.
    #[error("{}: line {line}, column {column}: is no TOML; texts stand in quotes", path.display())]
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

/// Configuration of `gw serve`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayConfig {
    /// What the gateway is called, and by what verifiers know it.
    #[serde(default)]
    pub gateway: NamingConfig,
    /// The NATS server.
    pub nats: NatsConfig,
    /// The event streams.
    #[serde(default)]
    pub journal: JournalConfig,
    /// The HTTP API.
    #[serde(default)]
    pub http: HttpConfig,
    /// How much one caller may ask of it.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// x402.
    #[serde(default)]
    pub x402: X402Config,
    /// Least and longest windows of a new payment.
    #[serde(default)]
    pub deadlines: DeadlinesConfig,
    /// The read models.
    pub projections: ProjectionsConfig,
    /// The look-out for payments that are past their time.
    #[serde(default)]
    pub watchdog: WatchdogConfig,
    /// When the gateway brings the release of a delivered payment itself.
    #[serde(default)]
    pub release: ReleaseConfig,
    /// The fulfillment verifier used when a request names none.
    pub verifier: DefaultVerifierConfig,
    /// What a request may name besides the defaults.
    #[serde(default)]
    pub trust: TrustConfig,
    /// Whose payments are wanted.
    #[serde(default)]
    pub counterparty: CounterpartyConfig,
    /// Whose signatures and credentials can be checked.
    #[serde(default)]
    pub identity: IdentityConfig,
    /// What is asked of settlers.
    #[serde(default)]
    pub settlers: SettlersConfig,
    /// Signed checkpoints of the journal.
    #[serde(default)]
    pub audit: AuditConfig,
    /// The chains served.
    pub chains: Vec<GatewayChain>,
}

impl GatewayConfig {
    /// Reads the file at `path` with the environment's overrides and checks every value.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::read(path, Source::environment())
    }

    /// The gateway's name, which is one token of a NATS subject: as configured, or made of host name and port.
    pub fn name(&self) -> String {
        self.gateway.name.clone().unwrap_or_else(|| {
            // Linux and its containers tell it there; elsewhere the port alone has to do.
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            let host: String = host.trim().chars().filter_map(name_char).take(NAME_CHARS_MAX - 6).collect();
            let host = if host.is_empty() { "gateway".to_owned() } else { host };
            format!("{host}-{}", self.http.listen.port())
        })
    }

    fn read(path: &Path, variables: Vec<(String, String)>) -> Result<Self, Error> {
        let is_ours = |key: &str| {
            let is_key = key.contains("__") || key == "chains";
            let is_others = key.starts_with("auditor_")
                || key.starts_with("selector_")
                || key.starts_with("settler_")
                || key.starts_with("verifier_") && !key.starts_with("verifier__");
            is_key && !is_others
        };
        let config: Self = Source { prefix: "GW_", is_ours }.extract(path, variables)?;
        validation::gateway(&config)?;
        Ok(config)
    }
}

/// `[gateway]`: what the gateway is called, and by what verifiers know it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NamingConfig {
    /// The name operators address it by; host name and port when absent.
    pub name: Option<String>,
    /// Ed25519 seed, 0x and 64 hex digits, of the did:key by which verifiers know this gateway. Without it its asks are a
    /// stranger's.
    pub key: Option<Secret>,
}

/// `[watchdog]`: the look-out for payments with money past its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatchdogConfig {
    /// How long after a deadline a payment counts as overdue, in seconds: what the slowest chain may take to settle a block
    /// that proves what came of it.
    pub grace_seconds: u64,
    /// How often everything that is open is looked at, in seconds.
    pub every_seconds: u64,
}

impl Default for WatchdogConfig {
    fn default() -> Self {
        Self { grace_seconds: 1_800, every_seconds: 15 }
    }
}

/// `[release]`: how long a settler is left to bring the release of its own delivery before the gateway does. It holds for
/// payments that are confirmed from then on; each has its time in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReleaseConfig {
    /// The settler's share of what is left between the confirmed delivery and the refund window, percent.
    pub settler_percent: u32,
    /// The least time that is left to the settler, in seconds; never more than half of what is left.
    pub settler_seconds_min: u64,
}

impl Default for ReleaseConfig {
    fn default() -> Self {
        let ReleaseRule { settler_percent, least } = ReleaseRule::DEFAULT;
        Self { settler_percent, settler_seconds_min: least.as_secs() }
    }
}

impl From<ReleaseConfig> for ReleaseRule {
    fn from(config: ReleaseConfig) -> Self {
        Self { settler_percent: config.settler_percent, least: Duration::from_secs(config.settler_seconds_min) }
    }
}

/// `[nats]`: the server that holds the journal and connects the settlers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatsConfig {
    /// Address, `nats://host:port` or `tls://host:port`; several servers of a cluster are separated by commas.
    #[serde(default = "nats_url")]
    pub url: String,
    /// Certificates of the authorities that the server's own comes from, PEM; with it nothing but TLS will do. Without it
    /// `tls://` goes by the system's authorities, and `nats://` is for loopback.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// File with the seed of the gateway role's NKEY, `SU…`; read again for each connection.
    pub seed_file: PathBuf,
}

impl NatsConfig {
    /// The addresses, and how to connect to them.
    ///
    /// # Errors
    /// When an address or the file cannot be used.
    pub fn client(&self) -> Result<(Vec<String>, ConnectOptions), connection::Error> {
        let servers = connection::servers(&self.url, self.ca_file.as_deref())?;
        Ok((servers, Identity::in_file(&self.seed_file)?.options(self.ca_file.as_deref())))
    }
}

/// `[journal]`: the event streams; both values take effect when the streams are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JournalConfig {
    /// Number of streams the payments are spread over, 1 to 256; fixed once created.
    pub shards: u16,
    /// Copies of each stream in a NATS cluster: 1, 3 or 5.
    pub replicas: u8,
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self { shards: 8, replicas: 1 }
    }
}

/// `[deadlines]`: the least windows in which a new payment can succeed at all, and the longest for which anything is kept
/// open for one (design: strangers). What lies outside is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlinesConfig {
    /// Least time from acceptance to `quote_deadline`, in milliseconds.
    pub quote_ms_min: u64,
    /// Longest time from acceptance to `quote_deadline`, in seconds: settlers are asked for so long.
    pub quote_seconds_max: u64,
    /// Least time from `quote_deadline` to `fulfillment_deadline`, in milliseconds; at least 1,000, because chains
    /// count in whole seconds.
    pub settlement_ms_min: u64,
    /// Longest time from `quote_deadline` to `fulfillment_deadline`, in seconds, and so to the reserve deadline: an awarded
    /// settler keeps what it is to deliver for so long.
    pub settlement_seconds_max: u64,
    /// Longest time from `fulfillment_deadline` to `refund_after`, in seconds: a payer's money that nobody delivered for
    /// stays in escrow for so long.
    pub refund_seconds_max: u64,
}

impl Default for DeadlinesConfig {
    fn default() -> Self {
        Self {
            quote_ms_min: 100,
            quote_seconds_max: 600,
            settlement_ms_min: 1_000,
            settlement_seconds_max: 86_400,
            refund_seconds_max: 86_400,
        }
    }
}

/// `[x402]`: the gateway as a facilitator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct X402Config {
    /// Longest time a settle is held for its delivery, in milliseconds, whatever `maxTimeoutSeconds` the merchant allows.
    pub settle_hold_ms_max: u64,
}

impl Default for X402Config {
    fn default() -> Self {
        // The stock client gives up after 90 seconds.
        Self { settle_hold_ms_max: 75_000 }
    }
}

/// `[projections]`: the read models, which are rebuilt from the journal whenever they are missing or damaged.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionsConfig {
    /// Directory they are kept in.
    pub directory: PathBuf,
}

/// `[verifier]`: the fulfillment verifier used when a request names none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefaultVerifierConfig {
    /// The account that signs its attestations for EVM chains, where some are served.
    #[serde(default)]
    pub account: Option<String>,
    /// The account that signs its attestations for Solana chains, where some are served.
    #[serde(default)]
    pub solana_account: Option<String>,
    /// The account that signs its attestations for Tron chains, where some are served.
    #[serde(default)]
    pub tron_account: Option<String>,
    /// The origin it is reached at, `http(s)://host[:port]` without a path.
    pub endpoint: String,
}

/// A fulfillment verifier (spec 2.1).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierEndpoint {
    /// The account that signs its attestations.
    pub account: String,
    /// The origin it is reached at, `http(s)://host[:port]` without a path.
    pub endpoint: String,
}

/// `[trust]`: what a request may name instead of the defaults. All empty unless configured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrustConfig {
    /// Escrow contracts.
    pub escrow_contracts: Vec<ContractRef>,
    /// Fulfillment proxies.
    pub fulfillment_proxies: Vec<ContractRef>,
    /// Fulfillment verifiers.
    pub verifiers: Vec<VerifierEndpoint>,
    /// Quote selectors, by address or public key.
    pub selectors: Vec<SelectorKey>,
    /// Longest time a quote selector has after the quote deadline, in milliseconds. A payment without its choice by then
    /// fails, before any money moves.
    pub selector_ms_max: u64,
}

impl Default for TrustConfig {
    fn default() -> Self {
        Self {
            escrow_contracts: Vec::new(),
            fulfillment_proxies: Vec::new(),
            verifiers: Vec::new(),
            selectors: Vec::new(),
            selector_ms_max: 5_000,
        }
    }
}

/// `[counterparty]`: whose payments are wanted (spec 5.5). Everyone's, unless a file is named. Both files are read again
/// when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CounterpartyConfig {
    /// Cedar policies over `src/policy/schema.cedarschema`; what none of them permits is declined.
    pub policy_file: Option<PathBuf>,
    /// Accounts and DIDs that are declined whatever the policies say, one a line.
    pub deny_list: Option<PathBuf>,
}

/// `[identity]`: what is needed to check proofs and credentials, besides what comes with the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentityConfig {
    /// Origins whose `did:web` documents are asked for, `https://host[:port]`.
    pub did_web_origins: Vec<String>,
    /// JSON-LD contexts that requests and credentials may name.
    pub contexts: Vec<ContextConfig>,
}

/// A JSON-LD context of the operator's.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextConfig {
    /// The URL that documents name it by. It is never fetched.
    pub url: String,
    /// The file that holds it.
    pub file: PathBuf,
}

/// `[settlers]`: what is asked of settlers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SettlersConfig {
    /// How long an auction stays open while nobody serves its corridor, in milliseconds, for a settler that is just coming
    /// back.
    pub absence_ms_max: u64,
    /// What each policy means that payers may require of settlers (`settler_auth_required`), by its name.
    pub policies: BTreeMap<String, SettlerPolicyConfig>,
}

impl Default for SettlersConfig {
    fn default() -> Self {
        Self { absence_ms_max: 1_000, policies: BTreeMap::new() }
    }
}

/// `[settlers.policies.NAME]`: the credential by which a settler holds a policy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettlerPolicyConfig {
    /// DIDs of those who may issue it; at least one.
    pub issuers: Vec<Did>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// `[audit]`: signed checkpoints of what the journal holds, for auditors.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// Ed25519 seed, 0x and 64 hex digits, with which this gateway signs checkpoints; without it, it signs none.
    pub checkpoint_key: Option<Secret>,
    /// Pause between two checkpoints of a shard, in seconds.
    pub checkpoint_seconds: u64,
    /// Keys of the other gateways, as did:key, where each has its own.
    pub trusted_signers: Vec<Did>,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { checkpoint_key: None, checkpoint_seconds: 60, trusted_signers: Vec::new() }
    }
}

/// Reads the configuration of `gw settler` from the file at `path` with the environment's overrides. Its values are checked
/// by [`settler::Config::options`].
///
/// # Errors
/// See [`Error`].
pub fn settler(path: &Path) -> Result<settler::Config, Error> {
    read_settler(path, Source::environment())
}

fn read_settler(path: &Path, variables: Vec<(String, String)>) -> Result<settler::Config, Error> {
    // The first names the file, and is no key in it.
    let is_ours = |key: &str| key != "config";
    Source { prefix: "GW_SETTLER_", is_ours }.extract(path, variables)
}

/// Longest name of a gateway, in characters.
pub const NAME_CHARS_MAX: usize = 63;

/// `c` as it may stand in a gateway's name; `None` when it may not.
fn name_char(c: char) -> Option<char> {
    match c {
        'a'..='z' | '0'..='9' | '-' | '_' => Some(c),
        'A'..='Z' => Some(c.to_ascii_lowercase()),
        '.' => Some('-'),
        _ => None,
    }
}

fn nats_url() -> String {
    "nats://127.0.0.1:4222".to_owned()
}

#[cfg(test)]
mod tests;
