//! Configuration of `gw verifier`.

use std::{collections::BTreeSet, net::SocketAddr, path::Path};

use serde::Deserialize;

use chains::config::ChainConfig;
use events::{Account, Did, Family};
use trace::TelemetryConfig;

use super::{
    Error, MetricsConfig,
    chain::{
        self,
        account_key::{AccountKey, Signs},
    },
    rules::{BODY_MS_LIMIT, COUNT_LIMIT, IDLE_MS_LIMIT, WRITE_MS_LIMIT, endpoint, require, telemetry},
    source::Source,
    verifier_set::{self, account_key},
};

/// Each may cost a check of a signature for an ask.
const ORIGINS_LIMIT: usize = 8;

/// Configuration of `gw verifier`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierConfig {
    /// Address to listen on.
    #[serde(default = "listen")]
    pub listen: SocketAddr,
    /// Key of the EVM chains' `releaser`, hex with 0x, or where a service keeps it. Without it those chains are destinations only.
    pub releaser_key: Option<AccountKey>,
    /// Keypair of the Solana chains' `releaser`: Base58 of its 64 bytes, or the JSON array of `solana-keygen`. Without it
    /// those chains are destinations only.
    pub solana_releaser_key: Option<AccountKey>,
    /// Key of the Tron chains' `releaser`, hex with 0x, or where a service keeps it. Without it those chains are destinations only.
    pub tron_releaser_key: Option<AccountKey>,
    /// What connections to it may hold on to.
    #[serde(default)]
    pub http: VerifierHttpConfig,
    /// Where it is measured.
    #[serde(default)]
    pub metrics: MetricsConfig,
    /// Who asks.
    #[serde(default)]
    pub callers: CallersConfig,
    /// The set that it is a member of, where the chains' releaser is one.
    pub set: Option<VerifierSetConfig>,
    /// Where traces are sent.
    #[serde(default)]
    pub telemetry: TelemetryConfig,
    /// The chains it reads.
    pub chains: Vec<ChainConfig>,
}

/// `[http]` of a verifier: what connections to it may hold on to, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierHttpConfig {
    /// Connections open at the same time. For one more the idle one goes that has been so longest.
    pub connections_max: usize,
    /// How long the head of a connection's first request may take to arrive, in milliseconds.
    pub head_ms_max: u64,
    /// How long a connection may be idle between two requests, in milliseconds.
    pub idle_ms_max: u64,
    /// How long a body may take to arrive, in milliseconds.
    pub body_ms_max: u64,
    /// How long a caller may take nothing of its answer, in milliseconds.
    pub write_ms_max: u64,
}

impl Default for VerifierHttpConfig {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            head_ms_max: 5_000,
            idle_ms_max: 60_000,
            body_ms_max: 5_000,
            write_ms_max: 10_000,
        }
    }
}

/// `[set]`: verifiers of which so many as the threshold must sign, with this one among them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierSetConfig {
    /// How many members have to sign, 1 to their number.
    pub threshold: u8,
    /// All of them, at most 16.
    pub members: Vec<SetMemberConfig>,
}

/// One verifier of `[set]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetMemberConfig {
    /// The account that it signs with for EVM chains.
    #[serde(default)]
    pub account: Option<Account>,
    /// The account that it signs with for Solana chains.
    #[serde(default)]
    pub solana_account: Option<Account>,
    /// The account that it signs with for Tron chains.
    #[serde(default)]
    pub tron_account: Option<Account>,
}

impl SetMemberConfig {
    fn account_on(&self, family: Family) -> Option<&Account> {
        verifier_set::account_on(family, &self.account, &self.solana_account, &self.tron_account)
    }
}

impl VerifierSetConfig {
    /// What the releaser of chains of this family is, whose key of this verifier's, named `name`, is of the account `own`; `None`
    /// where no member has an account on them.
    fn releaser(&self, family: Family, own: &str, name: &str) -> Result<Option<Account>, Error> {
        let accounts = || self.members.iter().map(|member| member.account_on(family));
        if accounts().all(|account| account.is_none()) {
            return Ok(None);
        }
        // Where the others are reached has no part in the id.
        let listed = accounts().map(|account| (account, ""));
        let set = verifier_set::checked("set", family, self.threshold, listed)?;
        let is_member = accounts().flatten().any(|account| account.as_str() == own);
        require(is_member, "set.members", &format!("must have {own}, the account of {name}"))?;
        Ok(Some(set.account))
    }
}

/// `[callers]`: who is known, and how much each and all unknown callers together may ask.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallersConfig {
    /// Origins under which callers have configured this verifier: what they sign names one of them.
    pub origins: Vec<String>,
    /// Gateways, by the did:key of their `[gateway] key`.
    pub gateways: Vec<Did>,
    /// Settlers, by the did:key that they register with.
    pub settlers: Vec<Did>,
    /// Most seconds between the making of a signature and this verifier's clock, either way.
    pub signature_seconds_max: u64,
    /// Asks under way of each known caller: those that arrive, wait and are judged.
    pub asks_per_caller_max: usize,
    /// Judgements at work for known callers, all together.
    pub judgements_max: usize,
    /// Judgements at work for each known caller.
    pub judgements_per_caller_max: usize,
    /// Asks under way of all unknown callers together.
    pub anonymous_asks_max: usize,
    /// Judgements at work for unknown callers, and begun for them in a second; 0 serves none.
    pub anonymous_judgements_max: usize,
}

impl Default for CallersConfig {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            gateways: Vec::new(),
            settlers: Vec::new(),
            signature_seconds_max: 60,
            asks_per_caller_max: 64,
            judgements_max: 64,
            judgements_per_caller_max: 16,
            anonymous_asks_max: 64,
            anonymous_judgements_max: 8,
        }
    }
}

impl VerifierConfig {
    /// Reads the file at `path` with the environment's overrides and checks every value.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::read(path, Source::environment())
    }

    pub(super) fn read(path: &Path, variables: Vec<(String, String)>) -> Result<Self, Error> {
        // `GW_VERIFIER__…` is the gateway's section of that name.
        let is_ours = |key: &str| !key.starts_with('_');
        let config: Self = Source { prefix: "GW_VERIFIER_", is_ours }.extract(path, variables)?;
        check(&config)?;
        Ok(config)
    }
}

impl VerifierConfig {
    /// The key of a family's releaser, with its name in the file.
    pub fn releaser_key_of(&self, family: Family) -> (&'static str, Option<&AccountKey>) {
        match family {
            Family::Evm => ("releaser_key", self.releaser_key.as_ref()),
            Family::Solana => ("solana_releaser_key", self.solana_releaser_key.as_ref()),
            Family::Tron => ("tron_releaser_key", self.tron_releaser_key.as_ref()),
        }
    }
}

fn check(config: &VerifierConfig) -> Result<(), Error> {
    chain::check(config.chains.iter())?;
    let http = &config.http;
    require((1..=COUNT_LIMIT).contains(&http.connections_max), "http.connections_max", "must be 1 to 1000000")?;
    for (key, ms) in [("http.head_ms_max", http.head_ms_max), ("http.body_ms_max", http.body_ms_max)] {
        require((1..=BODY_MS_LIMIT).contains(&ms), key, "must be 1 to 60000")?;
    }
    require((1_000..=IDLE_MS_LIMIT).contains(&http.idle_ms_max), "http.idle_ms_max", "must be 1000 to 3600000")?;
    require((1..=WRITE_MS_LIMIT).contains(&http.write_ms_max), "http.write_ms_max", "must be 1 to 600000")?;
    callers(&config.callers)?;
    config.set.as_ref().map_or(Ok(()), set)?;
    telemetry(&config.telemetry)?;
    let keys = [&config.releaser_key, &config.solana_releaser_key, &config.tron_releaser_key];
    let rule = "must be given, or solana_releaser_key or tron_releaser_key, for there to be anything to sign with";
    require(keys.iter().any(|key| key.is_some()), "releaser_key", rule)?;
    for (i, chain) in config.chains.iter().enumerate() {
        let family = chain.family();
        let (name, Some(secret)) = config.releaser_key_of(family) else { continue };
        let (own, releaser) = (secret.account(family, name, Signs::Statements)?, &chain.common().releaser);
        let set = config.set.as_ref().map(|set| set.releaser(family, &own, name)).transpose()?.flatten();
        let rule = match &set {
            Some(id) => format!("must be {id}, the id of [set], or the account of {name}"),
            None => format!("must be the account of {name}"),
        };
        require(own == releaser.as_str() || set.as_ref() == Some(releaser), &format!("chains[{i}].releaser"), &rule)?;
    }
    Ok(())
}

fn set(set: &VerifierSetConfig) -> Result<(), Error> {
    verifier_set::check_size("set", set.threshold, set.members.len())?;
    for (i, member) in set.members.iter().enumerate() {
        for family in [Family::Evm, Family::Solana, Family::Tron] {
            if let Some(account) = member.account_on(family) {
                verifier_set::check_account(&format!("set.members[{i}].{}", account_key(family)), family, account)?;
            }
        }
    }
    Ok(())
}

fn callers(callers: &CallersConfig) -> Result<(), Error> {
    for (i, text) in callers.origins.iter().enumerate() {
        endpoint(&format!("callers.origins[{i}]"), text)?;
    }
    require(callers.origins.len() <= ORIGINS_LIMIT, "callers.origins", "must be at most 8")?;
    let mut seen = BTreeSet::new();
    for (key, dids) in [("callers.gateways", &callers.gateways), ("callers.settlers", &callers.settlers)] {
        for did in dids {
            require(did.ed25519_key().is_ok_and(|key| !key.is_weak()), key, "must be did:key of Ed25519 keys")?;
            require(seen.insert(did), key, "must not repeat a DID")?;
        }
    }
    let rule = "must name the origin under which the callers know this verifier: their signatures name it";
    require(seen.is_empty() || !callers.origins.is_empty(), "callers.origins", rule)?;
    let seconds = callers.signature_seconds_max;
    require((1..=3_600).contains(&seconds), "callers.signature_seconds_max", "must be 1 to 3600")?;
    for (key, count) in [
        ("callers.asks_per_caller_max", callers.asks_per_caller_max),
        ("callers.judgements_max", callers.judgements_max),
        ("callers.judgements_per_caller_max", callers.judgements_per_caller_max),
        ("callers.anonymous_asks_max", callers.anonymous_asks_max),
    ] {
        require((1..=COUNT_LIMIT).contains(&count), key, "must be 1 to 1000000")?;
    }
    let anonymous = callers.anonymous_judgements_max;
    require(anonymous <= COUNT_LIMIT, "callers.anonymous_judgements_max", "must be at most 1000000")
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8090))
}
