//! Configuration of `gw serve`. A section has its type in the file of those that change for the same reason; the rules of
//! all are in `validation.rs`.

mod console;
mod settlers;
mod storage;
mod timing;
mod trust;
mod validation;
mod verifier;
mod webhooks;

use std::path::Path;

use serde::Deserialize;

use net::callers::limits::LimitsConfig;
use trace::TelemetryConfig;

use super::{Error, HttpConfig, MetricsConfig, Secret, chain::GatewayChain, source::Source};

pub use self::{
    console::{ConsoleConfig, ConsoleOperator, check_operator_name},
    settlers::{PolicyRecordConfig, SettlerPausesConfig, SettlerPolicyConfig, SettlersConfig},
    storage::{AuditConfig, JournalConfig, NatsConfig, ProjectionsConfig},
    timing::{DeadlinesConfig, ReleaseConfig, WatchdogConfig, X402Config},
    trust::{ContextConfig, CounterpartyConfig, IdentityConfig, TrustConfig, VerifierEndpoint},
    verifier::{DefaultVerifierConfig, VerifierMemberConfig},
    webhooks::WebhooksConfig,
};

/// Longest name of a gateway, in characters.
const NAME_CHARS_MAX: usize = 63;

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
    /// Where it is measured.
    #[serde(default)]
    pub metrics: MetricsConfig,
    /// The operators' console.
    #[serde(default)]
    pub console: ConsoleConfig,
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
    /// Messages to owners of payments.
    #[serde(default)]
    pub webhooks: WebhooksConfig,
    /// The fulfillment verifier used when a request names none, or a set of them.
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
    /// Where traces are sent.
    #[serde(default)]
    pub telemetry: TelemetryConfig,
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

    pub(super) fn read(path: &Path, variables: Vec<(String, String)>) -> Result<Self, Error> {
        let is_ours = |key: &str| {
            let is_key = key.contains("__") || key == "chains";
            let is_others = key.starts_with("auditor_")
                || key.starts_with("selector_")
                || key.starts_with("settler_")
                || key.starts_with("verifier_") && !key.starts_with("verifier__");
            is_key && !is_others
        };
        let mut config: Self = Source { prefix: "GW_", is_ours }.extract(path, variables)?;
        config.verifier.fill_in(&config.chains);
        validation::check(&config)?;
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

/// `c` as it may stand in a gateway's name; `None` when it may not.
fn name_char(c: char) -> Option<char> {
    match c {
        'a'..='z' | '0'..='9' | '-' | '_' => Some(c),
        'A'..='Z' => Some(c.to_ascii_lowercase()),
        '.' => Some('-'),
        _ => None,
    }
}
