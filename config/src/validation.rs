//! The rules that values must keep, checked once when a configuration is read.

use std::{collections::BTreeSet, path::Path};

use ed25519_dalek::SigningKey;
use url::Url;

use chains::config::ChainConfig;
use events::Family;
use journal_jetstream::connection;
use net::origin::origin;

use super::{CallersConfig, Error, GatewayConfig, HOLD_MS_LIMIT, NAME_CHARS_MAX, Secret, VerifierConfig, families};
use crate::limits;

/// Largest body: quoted inside the journaled event it may double, and a NATS message holds 1 MiB.
const BODY_BYTES_LIMIT: usize = 262_144;
const SHARDS_LIMIT: u16 = 256;
/// Most of anything that is counted in `[http]`, and most threads.
pub(super) const COUNT_LIMIT: usize = 1_000_000;
const HEAD_MS_LIMIT: u64 = 60_000;
const IDLE_MS_LIMIT: u64 = 3_600_000;
const WRITE_MS_LIMIT: u64 = 600_000;
/// Who waited longer than a synchronous hold would be gone.
const WRITE_WAIT_MS_LIMIT: u64 = HOLD_MS_LIMIT;
const BODY_MS_LIMIT: u64 = 60_000;
/// Each may cost a check of a signature for an ask.
const ORIGINS_LIMIT: usize = 8;
const SETTLE_HOLD_MS_LIMIT: u64 = 600_000;
/// Less than a quote is firm for: settlers' default is 30 s after the auction.
const SELECTOR_MS_LIMIT: u64 = 20_000;
/// The longest windows that may be configured, in seconds: a day for quotes, thirty for the settlement, a year for the refund.
const QUOTE_SECONDS_LIMIT: u64 = 86_400;
const SETTLEMENT_SECONDS_LIMIT: u64 = 2_592_000;
const REFUND_SECONDS_LIMIT: u64 = 31_536_000;
/// A week.
const EXITS_LIMIT: u64 = 10_000;
const WATCHDOG_LIMIT: u64 = 604_800;
/// What stands in the place of a gateway's name in the subjects of `operator::wire`.
const RESERVED_NAMES: [&str; 2] = ["all", "reply"];

pub(super) fn invalid(key: impl Into<String>, rule: impl Into<String>) -> Error {
    Error::Invalid { key: key.into(), rule: rule.into() }
}

pub(super) fn require(holds: bool, key: &str, rule: &str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(invalid(key, rule)) }
}

/// The addresses of NATS servers, as every role names them.
pub(super) fn nats_url(url: &str, ca_file: Option<&Path>) -> Result<(), Error> {
    connection::servers(url, ca_file).map(drop).map_err(|error| invalid("nats.url", error.to_string()))
}

pub(super) fn gateway(config: &GatewayConfig) -> Result<(), Error> {
    nats_url(&config.nats.url, config.nats.ca_file.as_deref())?;
    if let Some(name) = &config.gateway.name {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let fits = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(legal);
        require(fits, "gateway.name", "must have 1 to 63 characters of a-z, 0-9, - and _")?;
        require(!RESERVED_NAMES.contains(&name.as_str()), "gateway.name", "must not be `all` or `reply`")?;
    }
    if let Some(key) = &config.gateway.key {
        require(signing_key(key).is_some(), "gateway.key", "must be 0x and 64 hex digits")?;
    }
    let watchdog = &config.watchdog;
    require(watchdog.grace_seconds <= WATCHDOG_LIMIT, "watchdog.grace_seconds", "must be at most 604800")?;
    require((1..=3_600).contains(&watchdog.every_seconds), "watchdog.every_seconds", "must be 1 to 3600")?;
    let release = &config.release;
    require(release.settler_percent <= 50, "release.settler_percent", "must be at most 50")?;
    require(release.settler_seconds_min <= 3_600, "release.settler_seconds_min", "must be at most 3600")?;
    require((1..=SHARDS_LIMIT).contains(&config.journal.shards), "journal.shards", "must be 1 to 256")?;
    require(matches!(config.journal.replicas, 1 | 3 | 5), "journal.replicas", "must be 1, 3 or 5")?;

    require((1..=86_400).contains(&config.audit.checkpoint_seconds), "audit.checkpoint_seconds", "must be 1 to 86400")?;
    if let Some(key) = &config.audit.checkpoint_key {
        require(signing_key(key).is_some(), "audit.checkpoint_key", "must be 0x and 64 hex digits")?;
    }
    let strangers = config.audit.trusted_signers.iter().find(|signer| signer.ed25519_key().is_err());
    require(strangers.is_none(), "audit.trusted_signers", "must be did:key of Ed25519 keys")?;

    for (i, text) in config.identity.did_web_origins.iter().enumerate() {
        let normal = origin(text).filter(|origin| origin == text && origin.starts_with("https://"));
        let rule = "must be an origin in its normal form, https://host[:port] without a path";
        require(normal.is_some(), &format!("identity.did_web_origins[{i}]"), rule)?;
    }
    let absence = config.settlers.absence_ms_max;
    require(absence <= QUOTE_SECONDS_LIMIT * 1_000, "settlers.absence_ms_max", "must be at most 86400000")?;
    for (name, policy) in &config.settlers.policies {
        let key = |member: &str| format!("settlers.policies.{name}.{member}");
        require(!policy.issuers.is_empty(), &key("issuers"), "must name at least one DID")?;
        require(!policy.kind.is_empty(), &key("type"), "must not be empty")?;
    }

    let http = &config.http;
    let base = Url::parse(&http.base_url).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.query().is_none()
            && url.fragment().is_none()
            && !http.base_url.ends_with('/')
    });
    require(
        base.is_some(),
        "http.base_url",
        "must be an http(s) address without a slash, query or fragment at its end",
    )?;
    require(http.hold_ms_max <= HOLD_MS_LIMIT, "http.hold_ms_max", "must be at most 30000")?;
    require(http.quotes_hold_ms_max <= HOLD_MS_LIMIT, "http.quotes_hold_ms_max", "must be at most 30000")?;
    let body_range = 1_024..=BODY_BYTES_LIMIT;
    require(body_range.contains(&http.body_bytes_max), "http.body_bytes_max", "must be 1024 to 262144")?;
    require((1..=BODY_MS_LIMIT).contains(&http.body_ms_max), "http.body_ms_max", "must be 1 to 60000")?;
    require((1..=3_600).contains(&http.retry_after_seconds), "http.retry_after_seconds", "must be 1 to 3600")?;
    for (name, count) in [
        ("http.connections_max", http.connections_max),
        ("http.writes_in_flight_max", http.writes_in_flight_max),
        ("http.writes_waiting_max", http.writes_waiting_max),
    ] {
        require((1..=COUNT_LIMIT).contains(&count), name, "must be 1 to 1000000")?;
    }
    require((1_000..=IDLE_MS_LIMIT).contains(&http.idle_ms_max), "http.idle_ms_max", "must be 1000 to 3600000")?;
    require((1..=HEAD_MS_LIMIT).contains(&http.head_ms_max), "http.head_ms_max", "must be 1 to 60000")?;
    require((1..=WRITE_MS_LIMIT).contains(&http.write_ms_max), "http.write_ms_max", "must be 1 to 600000")?;
    let wait = http.write_wait_ms_max;
    require((1..=WRITE_WAIT_MS_LIMIT).contains(&wait), "http.write_wait_ms_max", "must be 1 to 30000")?;
    limits::check(&config.limits, http.body_bytes_max)?;
    let hold = config.x402.settle_hold_ms_max;
    require(hold <= SETTLE_HOLD_MS_LIMIT, "x402.settle_hold_ms_max", "must be at most 600000")?;
    deadlines(config)?;
    let open = config.http.quote_requests_open_max;
    require((1..=COUNT_LIMIT).contains(&open), "http.quote_requests_open_max", "must be 1 to 1000000")?;
    require(!config.projections.directory.as_os_str().is_empty(), "projections.directory", "must not be empty")?;

    endpoint("verifier.endpoint", &config.verifier.endpoint)?;
    for (i, verifier) in config.trust.verifiers.iter().enumerate() {
        require(!verifier.account.is_empty(), &format!("trust.verifiers[{i}].account"), "must not be empty")?;
        endpoint(&format!("trust.verifiers[{i}].endpoint"), &verifier.endpoint)?;
    }
    let selector_range = 1..=SELECTOR_MS_LIMIT;
    require(selector_range.contains(&config.trust.selector_ms_max), "trust.selector_ms_max", "must be 1 to 20000")?;
    chains(config.chains.iter().map(|served| &served.chain))?;
    for (i, served) in config.chains.iter().enumerate() {
        let chain = &served.chain;
        let family = families::family(&format!("chains[{i}].chain_id"), chain)?;
        let (name, verifier) = match family {
            Family::Evm => ("verifier.account", &config.verifier.account),
            Family::Solana => ("verifier.solana_account", &config.verifier.solana_account),
            Family::Tron => ("verifier.tron_account", &config.verifier.tron_account),
        };
        let verifier = verifier.as_deref().and_then(|text| families::account(family, name, text).ok());
        require(verifier.is_some(), name, "must be an account of the chains served")?;
        let releaser = families::account(family, &format!("chains[{i}].releaser"), &chain.releaser)?;
        require(Some(releaser) == verifier, &format!("chains[{i}].releaser"), "must be the account of [verifier]")?;
        for (name, list) in [
            ("trusted_escrow_contracts", &chain.trusted_escrow_contracts),
            ("trusted_fulfillment_proxies", &chain.trusted_fulfillment_proxies),
        ] {
            require(list.is_empty(), &format!("chains[{i}].{name}"), "belongs into [trust] of a gateway")?;
        }
        let key = format!("chains[{i}].reserver_key");
        let reserver = families::account(family, &format!("chains[{i}].reserver"), &chain.reserver)?;
        let is_its = families::account_of(family, &key, &served.reserver_key)? == reserver.as_str();
        require(is_its, &key, "must be the private key of reserver")?;
        let key = format!("chains[{i}].permit2_without_witness");
        let permit2_is_there = family == Family::Evm || !served.permit2_without_witness;
        require(permit2_is_there, &key, "must be absent or false: only EVM chains have Permit2")?;
        let key = format!("chains[{i}].submitter_keys");
        let mut submitters = BTreeSet::new();
        for secret in &served.submitter_keys {
            require(submitters.insert(families::account_of(family, &key, secret)?), &key, "must not repeat a key")?;
        }
        require(!submitters.is_empty(), &key, "must hold at least one key")?;
        let key = format!("chains[{i}].exit_submitter_keys");
        for secret in &served.exit_submitter_keys {
            let is_apart = submitters.insert(families::account_of(family, &key, secret)?);
            require(is_apart, &key, "must not repeat a key, nor have one of submitter_keys")?;
        }
        let reserve = &format!("chains[{i}].exits_reserved");
        require(chain.exits_reserved <= EXITS_LIMIT, reserve, "must be at most 10000")?;
    }
    let served = |chain| config.chains.iter().any(|served| served.chain.chain_id == chain);
    let trust = &config.trust;
    for (key, contracts) in
        [("trust.escrow_contracts", &trust.escrow_contracts), ("trust.fulfillment_proxies", &trust.fulfillment_proxies)]
    {
        for contract in contracts {
            require(
                served(contract.chain_id.clone()),
                key,
                &format!("names {}, which is not served", contract.chain_id),
            )?;
        }
    }
    Ok(())
}

/// The windows: each has room between its least and its longest.
fn deadlines(config: &GatewayConfig) -> Result<(), Error> {
    let windows = &config.deadlines;
    require(windows.settlement_ms_min >= 1_000, "deadlines.settlement_ms_min", "must be at least 1000")?;
    for (key, longest, least_ms, limit) in [
        ("deadlines.quote_seconds_max", windows.quote_seconds_max, windows.quote_ms_min, QUOTE_SECONDS_LIMIT),
        (
            "deadlines.settlement_seconds_max",
            windows.settlement_seconds_max,
            windows.settlement_ms_min,
            SETTLEMENT_SECONDS_LIMIT,
        ),
    ] {
        require((1..=limit).contains(&longest), key, &format!("must be 1 to {limit}"))?;
        require(longest * 1_000 > least_ms, key, &format!("must be above the least of that window, {least_ms} ms"))?;
    }
    let key = "deadlines.refund_seconds_max";
    let limit = REFUND_SECONDS_LIMIT;
    require((1..=limit).contains(&windows.refund_seconds_max), key, &format!("must be 1 to {limit}"))?;
    let delays = config.chains.iter().map(|served| served.chain.refund_delay_seconds);
    let delay = delays.max().unwrap_or_default();
    let rule = format!("must be at least {delay}, the longest refund_delay_seconds of the chains");
    require(windows.refund_seconds_max >= delay, key, &rule)
}

pub(super) fn verifier(config: &VerifierConfig) -> Result<(), Error> {
    chains(config.chains.iter())?;
    let http = &config.http;
    require((1..=COUNT_LIMIT).contains(&http.connections_max), "http.connections_max", "must be 1 to 1000000")?;
    for (key, ms) in [("http.head_ms_max", http.head_ms_max), ("http.body_ms_max", http.body_ms_max)] {
        require((1..=BODY_MS_LIMIT).contains(&ms), key, "must be 1 to 60000")?;
    }
    require((1_000..=IDLE_MS_LIMIT).contains(&http.idle_ms_max), "http.idle_ms_max", "must be 1000 to 3600000")?;
    require((1..=WRITE_MS_LIMIT).contains(&http.write_ms_max), "http.write_ms_max", "must be 1 to 600000")?;
    callers(&config.callers)?;
    let keys = [&config.releaser_key, &config.solana_releaser_key, &config.tron_releaser_key];
    let rule = "must be given, or solana_releaser_key or tron_releaser_key, for there to be anything to sign with";
    require(keys.iter().any(|key| key.is_some()), "releaser_key", rule)?;
    for (i, chain) in config.chains.iter().enumerate() {
        let family = families::family(&format!("chains[{i}].chain_id"), chain)?;
        let (name, secret) = match family {
            Family::Evm => ("releaser_key", &config.releaser_key),
            Family::Solana => ("solana_releaser_key", &config.solana_releaser_key),
            Family::Tron => ("tron_releaser_key", &config.tron_releaser_key),
        };
        let Some(secret) = secret else { continue };
        let key = format!("chains[{i}].releaser");
        let releaser = families::account(family, &key, &chain.releaser)?;
        let is_its = families::account_of(family, name, secret)? == releaser.as_str();
        require(is_its, &key, &format!("must be the account of {name}"))?;
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

pub(super) fn chains<'a>(configured: impl Iterator<Item = &'a ChainConfig>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for (i, chain) in configured.enumerate() {
        let key = |name: &str| format!("chains[{i}].{name}");
        let family = families::family(&key("chain_id"), chain)?;
        require(seen.insert(&chain.chain_id), &key("chain_id"), "must not repeat")?;
        let rpc = Url::parse(&chain.rpc_url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        require(rpc.is_some(), &key("rpc_url"), "must be an http(s) address")?;
        for (name, text) in [
            ("escrow_contract", &chain.escrow_contract),
            ("fulfillment_proxy", &chain.fulfillment_proxy),
            ("reserver", &chain.reserver),
            ("releaser", &chain.releaser),
        ] {
            families::account(family, &key(name), text)?;
        }
        families::check(family, chain, key)?;
        for (name, list) in [
            ("trusted_escrow_contracts", &chain.trusted_escrow_contracts),
            ("trusted_fulfillment_proxies", &chain.trusted_fulfillment_proxies),
        ] {
            for text in list {
                families::account(family, &key(name), text)?;
            }
        }
        require(chain.poll_ms > 0, &key("poll_ms"), "must be above 0")?;
        require(chain.admission_seconds > 0, &key("admission_seconds"), "must be above 0")?;
        require(chain.reprice_seconds > 0, &key("reprice_seconds"), "must be above 0")?;
        require(chain.rpc_timeout_ms > 0, &key("rpc_timeout_ms"), "must be above 0")?;
        let gas = chain.gas.check();
        gas.map_err(|(name, rule)| invalid(key(&format!("gas.{name}")), rule))?;
        require(chain.refund_delay_seconds > 0, &key("refund_delay_seconds"), "must be above 0")?;
        let mut assets = BTreeSet::new();
        for (j, served) in chain.assets.iter().enumerate() {
            let key = key(&format!("assets[{j}].asset_identifier"));
            let asset = &served.asset_identifier;
            require(*asset.chain() == chain.chain_id, &key, "must be on this chain")?;
            families::asset(family, &key, asset)?;
            require(assets.insert(asset), &key, "must not repeat")?;
        }
    }
    require(!seen.is_empty(), "chains", "must hold at least one chain")
}

/// An origin: scheme, host and port, nothing behind them (spec 2.1).
fn endpoint(key: &str, text: &str) -> Result<(), Error> {
    origin(text).map(drop).ok_or_else(|| invalid(key, "must be http(s)://host[:port] without a path"))
}

/// The Ed25519 key of a seed, 0x and 64 hex digits.
pub fn signing_key(secret: &Secret) -> Option<SigningKey> {
    let digits = secret.expose().strip_prefix("0x")?;
    let seed: [u8; 32] = hex::decode(digits).ok()?.try_into().ok()?;
    Some(SigningKey::from_bytes(&seed))
}
