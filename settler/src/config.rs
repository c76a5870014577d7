//! Configuration of `gw settler`: the file, and the checked [`Options`] made of it.

mod corridors;
mod prices;
mod verifiers;

use std::{
    collections::{HashMap, HashSet},
    fs,
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use chains::config::ChainConfig;
use ed25519_dalek::SigningKey;
use events::{Account, AssetId, ChainId, Did, event::VerifierRef};
use protocol::{CREDENTIALS_MAX, POLICIES_MAX, TEXT_CHARS_MAX};
use ruint::aliases::U256;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use trace::TelemetryConfig;

use crate::pricing::Book;

pub use corridors::{CorridorConfig, RateConfig, TierConfig};
pub use prices::{FeedConfig, FeedKind, PriceConfig, SourceConfig};
pub use verifiers::{VerifierConfig, VerifierMemberConfig};

/// Least firm time: a shorter one is rarely awarded in time.
const FIRM_SECONDS_MIN: u64 = 5;
/// Longest firm time: firm tokens are lost to everyone else.
const FIRM_SECONDS_MAX: u64 = 600;

/// The file. It contains secrets, so it does not implement `Debug`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The NATS server.
    pub nats: NatsConfig,
    /// Ed25519 seed of the settler's DID: 64 hex digits, with or without `0x`.
    pub seed: String,
    /// Private key of the account that delivers and is paid on EVM chains: 64 hex digits, with or without 0x. Needed where
    /// there is an EVM chain.
    pub evm_private_key: Option<String>,
    /// Keypair of the account that delivers and is paid on Solana chains: Base58 of its 64 bytes, or the JSON array of
    /// `solana-keygen`. Needed where there is a Solana chain.
    pub solana_private_key: Option<String>,
    /// Private key of the account that delivers and is paid on Tron chains: 64 hex digits, with or without 0x. Needed where
    /// there is a Tron chain.
    pub tron_private_key: Option<String>,
    /// The chains; their contracts are the only ones this settler trusts.
    pub chains: Vec<ChainConfig>,
    /// The verifiers this settler trusts to attest its deliveries.
    pub verifiers: Vec<VerifierConfig>,
    /// What is traded.
    pub corridors: Vec<CorridorConfig>,
    /// Who says what assets are worth.
    #[serde(default)]
    pub feeds: Vec<FeedConfig>,
    /// What assets are worth.
    #[serde(default)]
    pub prices: Vec<PriceConfig>,
    /// Where it is measured.
    #[serde(default)]
    pub metrics: MetricsConfig,
    /// Promises that hold for all corridors.
    #[serde(default)]
    pub quoting: QuotingConfig,
    /// How far ahead this settler binds itself.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Claims that escrows owe this settler.
    #[serde(default)]
    pub claims: ClaimsConfig,
    /// Where traces are sent.
    #[serde(default)]
    pub telemetry: TelemetryConfig,
    /// How much of an asset may be promised, and is wanted; without an entry the balance alone is the bound.
    #[serde(default)]
    pub inventory: Vec<InventoryConfig>,
    /// Names of the policies this settler states to hold.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Files with W3C credentials about its DID, by which it holds those policies: one JSON object each.
    #[serde(default)]
    pub credentials: Vec<PathBuf>,
    /// Development only: `false` makes a settler that quotes and wins but never delivers.
    #[serde(default = "yes")]
    pub deliver: bool,
}

/// `[nats]`: the server. The settler proves the key of its DID there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatsConfig {
    /// Address, `nats://host:port` or `tls://host:port`; several servers of a cluster are separated by commas.
    pub url: String,
    /// Certificates of the authorities that the server's own comes from, PEM; with it nothing but TLS will do. Without it
    /// `tls://` goes by the system's authorities, and `nats://` is for loopback.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
}

/// `[metrics]`: where what the settler counts and measures can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address of `/metrics`, which asks nobody who it is. Without it nothing is counted and nothing listens.
    pub listen: Option<SocketAddr>,
}

/// `[[inventory]]`: how much of one asset may be promised, and is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InventoryConfig {
    /// The asset, CAIP-19.
    pub asset: AssetId,
    /// Most that is promised at a time, smallest unit, decimal text. Without it the balance alone is the bound.
    #[serde(default, deserialize_with = "some_units")]
    pub limit: Option<U256>,
    /// How much the settler wants to have free, smallest unit, decimal text: below it `skew_bps` of the corridors to this asset counts.
    #[serde(default, deserialize_with = "some_units")]
    pub target: Option<U256>,
}

/// `[quoting]`: promises in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotingConfig {
    /// Least time between the quote deadline and the fulfillment deadline for which a quote is given, in seconds.
    pub delivery_seconds_min: u64,
    /// Time after the quote deadline within which delivery is promised, in seconds, when the fulfillment deadline is
    /// later; without it the fulfillment deadline is promised.
    pub delivery_seconds_promised: Option<u64>,
    /// Least time between the beginning of a delivery and the promised time, in seconds.
    pub delivery_margin_seconds: u64,
    /// How long a quote is firm, in seconds: it may be awarded until this long after the quote deadline, and the tokens
    /// of a quote to a signed payment are held this long from when it is given. Quotes to unsigned requests hold
    /// nothing.
    pub firm_seconds: u64,
}

impl Default for QuotingConfig {
    fn default() -> Self {
        Self { delivery_seconds_min: 5, delivery_seconds_promised: None, delivery_margin_seconds: 2, firm_seconds: 30 }
    }
}

/// `[limits]`: how far ahead this settler binds itself. Requests beyond it are declined, whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Longest time to the quote deadline, in seconds.
    pub quote_seconds_max: u64,
    /// Longest time from now to the fulfillment deadline, and to the end of the deposit's window, in seconds. A gateway counts its
    /// own limit from the quote deadline on, so this is that limit and [`quote_seconds_max`](Self::quote_seconds_max) together.
    pub settlement_seconds_max: u64,
    /// Longest time between the fulfillment deadline and the refund window, in seconds.
    pub refund_seconds_max: u64,
    /// How long the tokens of an accepted award are held for a deposit that is not in escrow, in seconds. A later
    /// deposit is served from the tokens that are free then.
    pub deposit_hold_seconds_max: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            quote_seconds_max: 900,
            settlement_seconds_max: 87_300,
            refund_seconds_max: 604_800,
            deposit_hold_seconds_max: 1_800,
        }
    }
}

impl LimitsConfig {
    /// Upper bound of each limit: a year.
    const SECONDS_MAX: u64 = 31_536_000;

    fn check(&self) -> Result<(), Error> {
        let times = [
            ("limits.quote_seconds_max", self.quote_seconds_max),
            ("limits.settlement_seconds_max", self.settlement_seconds_max),
            ("limits.refund_seconds_max", self.refund_seconds_max),
            ("limits.deposit_hold_seconds_max", self.deposit_hold_seconds_max),
        ];
        for (key, seconds) in times {
            if !(1..=Self::SECONDS_MAX).contains(&seconds) {
                return Err(Error::new(key, format!("must be 1 to {}", Self::SECONDS_MAX)));
            }
        }
        Ok(())
    }
}

/// `[claims]`: collecting what escrows owe this settler because a payout to it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimsConfig {
    /// How often the escrows are read, in seconds, besides when the settler starts and after each release; 0 switches
    /// collecting off.
    pub interval_seconds: u64,
}

impl Default for ClaimsConfig {
    fn default() -> Self {
        Self { interval_seconds: 3_600 }
    }
}

impl ClaimsConfig {
    /// A month; 0 switches collecting off.
    const SECONDS_MAX: u64 = 2_592_000;

    /// How often the escrows are read; `None` when collecting is switched off.
    pub fn interval(&self) -> Option<Duration> {
        (self.interval_seconds > 0).then(|| Duration::from_secs(self.interval_seconds))
    }

    fn check(&self) -> Result<(), Error> {
        let rule = || format!("must be 0 to {}", Self::SECONDS_MAX);
        let holds = self.interval_seconds <= Self::SECONDS_MAX;
        if holds { Ok(()) } else { Err(Error::new("claims.interval_seconds", rule())) }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {rule}")]
pub struct Error {
    /// The key that breaks a rule.
    pub key: &'static str,
    /// The rule.
    pub rule: String,
}

impl Error {
    fn new(key: &'static str, rule: impl Into<String>) -> Self {
        Self { key, rule: rule.into() }
    }
}

/// A checked configuration, without its secrets.
#[derive(Debug, Clone)]
pub struct Options {
    /// The settler.
    pub settler: Did,
    /// The chains by id.
    pub chains: HashMap<ChainId, ChainConfig>,
    /// The trusted verifiers and sets of them, by chain and releaser.
    pub verifiers: HashMap<(ChainId, Account), VerifierRef>,
    /// How everything is priced when the settler starts.
    pub book: Book,
    /// Promises in time.
    pub quoting: QuotingConfig,
    /// How far ahead it binds itself.
    pub limits: LimitsConfig,
    /// Claims that escrows owe it.
    pub claims: ClaimsConfig,
    /// Most that may be promised of an asset at a time; without an entry the balance alone is the bound.
    pub inventory_max: HashMap<AssetId, U256>,
    /// Policies held.
    pub policies: HashSet<String>,
    /// The credentials that are shown for them.
    pub credentials: Vec<Map<String, Value>>,
    /// See [`Config::deliver`].
    pub deliver: bool,
}

impl Config {
    /// The settler's signing key.
    ///
    /// # Errors
    /// [`Error`] when `seed` is not 32 bytes of hex.
    pub fn signing_key(&self) -> Result<SigningKey, Error> {
        let mut seed = [0; 32];
        // A keystore gives it with 0x before it.
        let digits = self.seed.strip_prefix("0x").unwrap_or(&self.seed);
        hex::decode_to_slice(digits, &mut seed).map_err(|_| Error::new("seed", "must be 64 hex digits"))?;
        Ok(SigningKey::from_bytes(&seed))
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Error`] names the key and the rule it breaks.
    pub fn options(&self) -> Result<Options, Error> {
        self.telemetry.check().map_err(|(key, rule)| Error::new(key, rule))?;
        let settler = Did::from_ed25519(&self.signing_key()?.verifying_key());
        let mut chains = HashMap::new();
        for chain in &self.chains {
            if let ChainConfig::Evm(evm) = chain {
                let broken = |(key, rule)| Error::new("chains", format!("{}: gas.{key} {rule}", evm.common.chain_id));
                evm.gas.check().map_err(broken)?;
            }
            if chains.insert(chain.common().chain_id.clone(), chain.clone()).is_some() {
                return Err(Error::new("chains", format!("{} stands twice", chain.common().chain_id)));
            }
        }
        let book = self.book()?;
        if self.corridors.iter().any(|corridor| corridor.market) && self.quoting.delivery_seconds_promised.is_none() {
            let rule = "is needed where a corridor follows the market: without it a price stands for as long as the payer likes";
            return Err(Error::new("quoting.delivery_seconds_promised", rule));
        }
        let verifiers = verifiers::trusted(&self.verifiers)?;
        self.limits.check()?;
        self.claims.check()?;
        if !(FIRM_SECONDS_MIN..=FIRM_SECONDS_MAX).contains(&self.quoting.firm_seconds) {
            return Err(Error::new(
                "quoting.firm_seconds",
                format!("must be {FIRM_SECONDS_MIN} to {FIRM_SECONDS_MAX}"),
            ));
        }
        if self.policies.len() > POLICIES_MAX || self.policies.iter().any(|name| name.len() > TEXT_CHARS_MAX) {
            let rule = format!("at most {POLICIES_MAX} of at most {TEXT_CHARS_MAX} characters");
            return Err(Error::new("policies", rule));
        }
        Ok(Options {
            settler,
            chains,
            verifiers,
            book,
            quoting: self.quoting,
            limits: self.limits,
            claims: self.claims,
            inventory_max: self.inventory_max()?,
            policies: self.policies.iter().cloned().collect(),
            credentials: self.credentials()?,
            deliver: self.deliver,
        })
    }

    fn credentials(&self) -> Result<Vec<Map<String, Value>>, Error> {
        if self.credentials.len() > CREDENTIALS_MAX {
            return Err(Error::new("credentials", format!("at most {CREDENTIALS_MAX}")));
        }
        let read = |path: &PathBuf| {
            let wrong = |rule: String| Error::new("credentials", format!("{}: {rule}", path.display()));
            let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
            serde_json::from_str(&text).map_err(|error| wrong(format!("is not a JSON object: {error}")))
        };
        self.credentials.iter().map(read).collect()
    }

    /// How everything is priced by this configuration. What is not about prices is not looked at.
    ///
    /// # Errors
    /// [`Error`] names the key and the rule it breaks.
    pub fn book(&self) -> Result<Book, Error> {
        corridors::book(self)
    }

    fn inventory_max(&self) -> Result<HashMap<AssetId, U256>, Error> {
        let mut max = HashMap::new();
        for InventoryConfig { asset, limit, target } in &self.inventory {
            if limit.is_none() && target.is_none() {
                return Err(Error::new("inventory", format!("{asset} has neither limit nor target")));
            }
            max.extend(limit.map(|limit| (asset.clone(), limit)));
        }
        Ok(max)
    }

    fn decimals(&self, asset: &AssetId) -> Option<u8> {
        let listed = self.chains.iter().flat_map(|chain| &chain.common().assets);
        listed.into_iter().find(|listed| listed.asset_identifier == *asset).map(|listed| listed.decimals)
    }
}

impl Options {
    /// Whether `contract` is an escrow this settler trusts on `chain`.
    pub fn trusts_escrow(&self, chain: &ChainId, contract: &Account) -> bool {
        self.chains.get(chain).is_some_and(|config| config.common().trusts_escrow(contract))
    }

    /// Whether an escrow at `contract` goes by the word of `verifier`. Of a set that is sure of the chain's own escrow alone:
    /// those that are trusted besides may be of a version that takes a single verifier's word only.
    pub fn escrow_heeds(&self, chain: &ChainId, contract: &Account, verifier: &VerifierRef) -> bool {
        let is_own = |config: &ChainConfig| config.common().escrow_contract == *contract;
        verifier.set.is_none() || self.chains.get(chain).is_some_and(is_own)
    }

    /// Whether `contract` is a proxy this settler trusts on `chain`.
    pub fn trusts_proxy(&self, chain: &ChainId, contract: &Account) -> bool {
        self.chains.get(chain).is_some_and(|config| config.common().trusts_proxy(contract))
    }

    /// The trusted verifier, or set of them, whose account or id `releaser` is, for escrows on `chain`.
    pub fn verifier(&self, chain: &ChainId, releaser: &Account) -> Option<&VerifierRef> {
        self.verifiers.get(&(chain.clone(), releaser.clone()))
    }

    /// Least time between a promised delivery and the refund window of an escrow on `chain`, in seconds.
    pub fn refund_delay_seconds(&self, chain: &ChainId) -> Option<u64> {
        self.chains.get(chain).map(|config| config.common().refund_delay_seconds)
    }
}

fn units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<U256, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let number = if digits { U256::from_str_radix(&text, 10).ok() } else { None };
    number.ok_or_else(|| serde::de::Error::custom("must be a whole number of units as decimal text"))
}

fn some_units<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<U256>, D::Error> {
    units(deserializer).map(Some)
}

fn yes() -> bool {
    true
}
