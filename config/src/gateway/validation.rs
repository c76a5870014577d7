//! The rules of a gateway's values, checked once when its configuration is read.

use std::collections::BTreeSet;

use url::Url;

use net::origin::origin;

use crate::{
    Error, HOLD_MS_LIMIT, HttpConfig, chain,
    chain::{
        GatewayChain,
        account_key::{AccountKey, Signs},
    },
    limits,
    rules::{
        BODY_MS_LIMIT, COUNT_LIMIT, HEAD_MS_LIMIT, IDLE_MS_LIMIT, WRITE_MS_LIMIT, endpoint, nats_url, require,
        signing_key, telemetry,
    },
};

use super::{AuditConfig, GatewayConfig, NAME_CHARS_MAX, NamingConfig};

/// Largest body: quoted inside the journaled event it may double, and a NATS message holds 1 MiB.
const BODY_BYTES_LIMIT: usize = 262_144;
const SHARDS_LIMIT: u16 = 256;
/// Who waited longer than a synchronous hold would be gone.
const WRITE_WAIT_MS_LIMIT: u64 = HOLD_MS_LIMIT;
const SETTLE_HOLD_MS_LIMIT: u64 = 600_000;
/// Less than a quote is firm for: settlers' default is 30 s after the auction.
const SELECTOR_MS_LIMIT: u64 = 20_000;
/// The longest windows that may be configured, in seconds: a day for quotes, thirty for the settlement, a year for the refund.
const QUOTE_SECONDS_LIMIT: u64 = 86_400;
const SETTLEMENT_SECONDS_LIMIT: u64 = 2_592_000;
const REFUND_SECONDS_LIMIT: u64 = 31_536_000;
const EXITS_LIMIT: u64 = 10_000;
/// A week.
const WATCHDOG_LIMIT: u64 = 604_800;
/// What stands in the place of a gateway's name in the subjects of `operator::wire`.
const RESERVED_NAMES: [&str; 2] = ["all", "reply"];

/// Checks every value.
pub(super) fn check(config: &GatewayConfig) -> Result<(), Error> {
    nats_url(&config.nats.url, config.nats.ca_file.as_deref())?;
    naming(&config.gateway)?;
    let watchdog = &config.watchdog;
    require(watchdog.grace_seconds <= WATCHDOG_LIMIT, "watchdog.grace_seconds", "must be at most 604800")?;
    require((1..=3_600).contains(&watchdog.every_seconds), "watchdog.every_seconds", "must be 1 to 3600")?;
    let release = &config.release;
    require(release.settler_percent <= 50, "release.settler_percent", "must be at most 50")?;
    require(release.settler_seconds_min <= 3_600, "release.settler_seconds_min", "must be at most 3600")?;
    require((1..=SHARDS_LIMIT).contains(&config.journal.shards), "journal.shards", "must be 1 to 256")?;
    require(matches!(config.journal.replicas, 1 | 3 | 5), "journal.replicas", "must be 1, 3 or 5")?;
    audit(&config.audit)?;
    config.webhooks.check()?;
    config.console.check()?;
    telemetry(&config.telemetry)?;
    identities(config)?;
    config.settlers.check()?;
    http(&config.http)?;
    limits::check(&config.limits, config.http.body_bytes_max)?;
    let hold = config.x402.settle_hold_ms_max;
    require(hold <= SETTLE_HOLD_MS_LIMIT, "x402.settle_hold_ms_max", "must be at most 600000")?;
    deadlines(config)?;
    let open = config.http.quote_requests_open_max;
    require((1..=COUNT_LIMIT).contains(&open), "http.quote_requests_open_max", "must be 1 to 1000000")?;
    let addresses = config.http.deposit_addresses_open_max;
    require((1..=COUNT_LIMIT).contains(&addresses), "http.deposit_addresses_open_max", "must be 1 to 1000000")?;
    require(!config.projections.directory.as_os_str().is_empty(), "projections.directory", "must not be empty")?;

    config.verifier.check()?;
    trust(config)?;
    chain::check(config.chains.iter().map(|served| &served.chain))?;
    for (i, served) in config.chains.iter().enumerate() {
        let key = |name: &str| format!("chains[{i}].{name}");
        releaser(config, served, key)?;
        keys(served, key)?;
    }
    trusted_contracts(config)
}

fn naming(gateway: &NamingConfig) -> Result<(), Error> {
    if let Some(name) = &gateway.name {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let fits = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(legal);
        require(fits, "gateway.name", "must have 1 to 63 characters of a-z, 0-9, - and _")?;
        require(!RESERVED_NAMES.contains(&name.as_str()), "gateway.name", "must not be `all` or `reply`")?;
    }
    let key_is_one = gateway.key.as_ref().is_none_or(|key| signing_key(key).is_some());
    require(key_is_one, "gateway.key", "must be 0x and 64 hex digits")
}

fn audit(audit: &AuditConfig) -> Result<(), Error> {
    require((1..=86_400).contains(&audit.checkpoint_seconds), "audit.checkpoint_seconds", "must be 1 to 86400")?;
    let key_is_one = audit.checkpoint_key.as_ref().is_none_or(|key| signing_key(key).is_some());
    require(key_is_one, "audit.checkpoint_key", "must be 0x and 64 hex digits")?;
    let all_are_keys = audit.trusted_signers.iter().all(|signer| signer.ed25519_key().is_ok());
    require(all_are_keys, "audit.trusted_signers", "must be did:key of Ed25519 keys")
}

/// Whose proofs and credentials are checked.
fn identities(config: &GatewayConfig) -> Result<(), Error> {
    for (i, text) in config.identity.did_web_origins.iter().enumerate() {
        let normal = origin(text).filter(|origin| origin == text && origin.starts_with("https://"));
        let rule = "must be an origin in its normal form, https://host[:port] without a path";
        require(normal.is_some(), &format!("identity.did_web_origins[{i}]"), rule)?;
    }
    Ok(())
}

fn http(http: &HttpConfig) -> Result<(), Error> {
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
    require((1..=WRITE_WAIT_MS_LIMIT).contains(&wait), "http.write_wait_ms_max", "must be 1 to 30000")
}

/// The windows: each has room between its least and its longest.
fn deadlines(config: &GatewayConfig) -> Result<(), Error> {
    let windows = &config.deadlines;
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
    let delays = config.chains.iter().map(|served| served.chain.common().refund_delay_seconds);
    let delay = delays.max().unwrap_or_default();
    let rule = format!("must be at least {delay}, the longest refund_delay_seconds of the chains");
    require(windows.refund_seconds_max >= delay, key, &rule)
}

fn trust(config: &GatewayConfig) -> Result<(), Error> {
    let trust = &config.trust;
    for (i, verifier) in trust.verifiers.iter().enumerate() {
        let key = |name: &str| format!("trust.verifiers[{i}].{name}");
        endpoint(&key("endpoint"), &verifier.endpoint)?;
        let releasers = config.chains.iter().map(|served| &served.chain.common().releaser);
        let is_set = config.verifier.members.len() > 1 && releasers.into_iter().any(|id| *id == verifier.account);
        require(!is_set, &key("account"), "must not be the id of the set in [verifier], with which nobody signs")?;
    }
    for (i, origin) in trust.verifier_origins.iter().enumerate() {
        endpoint(&format!("trust.verifier_origins[{i}]"), origin)?;
    }
    let selector_range = 1..=SELECTOR_MS_LIMIT;
    require(selector_range.contains(&trust.selector_ms_max), "trust.selector_ms_max", "must be 1 to 20000")
}

/// The chain's releaser is the default verifier, and what is trusted besides stands in `[trust]`. `key` makes the path of a
/// member of the chain's.
fn releaser(config: &GatewayConfig, served: &GatewayChain, key: impl Fn(&str) -> String) -> Result<(), Error> {
    config.verifier.check_releaser(&served.chain, &key)?;
    let chain = served.chain.common();
    for (name, list) in [
        ("trusted_escrow_contracts", &chain.trusted_escrow_contracts),
        ("trusted_fulfillment_proxies", &chain.trusted_fulfillment_proxies),
    ] {
        require(list.is_empty(), &key(name), "belongs into [trust] of a gateway")?;
    }
    Ok(())
}

/// The gateway's keys for the chain. `key` makes the path of a member of the chain's.
fn keys(served: &GatewayChain, key: impl Fn(&str) -> String) -> Result<(), Error> {
    let (family, chain) = (served.chain.family(), served.chain.common());
    let name = key("reserver_key");
    let is_its = served.reserver_key.account(family, &name, Signs::Statements)? == chain.reserver.as_str();
    require(is_its, &name, "must be the private key of reserver")?;
    let mut reservers = BTreeSet::from([chain.reserver.to_string()]);
    let rule = "must not repeat a key, nor have that of reserver";
    distinct(&key("draining_reserver_keys"), &served.draining_reserver_keys, &mut reservers, rule, |name, listed| {
        listed.account(family, name, Signs::Statements)
    })?;
    let (name, mut submitters) = (key("submitter_keys"), BTreeSet::new());
    let sends = |name: &str, listed: &AccountKey| listed.account(family, name, Signs::Transactions);
    distinct(&name, &served.submitter_keys, &mut submitters, "must not repeat a key", sends)?;
    require(!submitters.is_empty(), &name, "must hold at least one key")?;
    let rule = "must not repeat a key, nor have one of submitter_keys";
    distinct(&key("exit_submitter_keys"), &served.exit_submitter_keys, &mut submitters, rule, sends)?;
    let rule = "must not repeat a key, nor have one of submitter_keys or exit_submitter_keys";
    distinct(&key("draining_submitter_keys"), &served.draining_submitter_keys, &mut submitters, rule, sends)?;
    require(chain.exits_reserved <= EXITS_LIMIT, &key("exits_reserved"), "must be at most 10000")
}

/// The keys of the list under `name` are of accounts that are not among `seen`, and then are.
fn distinct(
    name: &str,
    keys: &[AccountKey],
    seen: &mut BTreeSet<String>,
    rule: &str,
    account: impl Fn(&str, &AccountKey) -> Result<String, Error>,
) -> Result<(), Error> {
    for (i, listed) in keys.iter().enumerate() {
        let own = match listed {
            AccountKey::Here(_) => name.to_owned(),
            AccountKey::Elsewhere(_) => format!("{name}[{i}]"),
        };
        require(seen.insert(account(&own, listed)?), name, rule)?;
    }
    Ok(())
}

fn trusted_contracts(config: &GatewayConfig) -> Result<(), Error> {
    let trust = &config.trust;
    for (key, contracts) in
        [("trust.escrow_contracts", &trust.escrow_contracts), ("trust.fulfillment_proxies", &trust.fulfillment_proxies)]
    {
        for contract in contracts {
            let mut served = config.chains.iter().map(|served| &served.chain.common().chain_id);
            let rule = format!("names {}, which is not served", contract.chain_id);
            require(served.any(|chain_id| *chain_id == contract.chain_id), key, &rule)?;
        }
    }
    Ok(())
}
