//! `[webhooks]`: what owners of payments are told over HTTP where an operator wants it, and its bounds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ed25519_dalek::SigningKey;
use serde::Deserialize;

use net::origin::origin;

use crate::{
    Error, Secret,
    rules::{COUNT_LIMIT, require, signing_key},
};

/// Three days, in seconds: how long a message may be tried.
const RETRIES_SECONDS_LIMIT: u64 = 3 * 24 * 3_600;
const RETRIES_LIMIT: usize = 32;
const OF_OWNER_LIMIT: usize = 1_000;
const CALL_MS_LIMIT: u64 = 60_000;
const FORMER_KEYS_LIMIT: usize = 4;
const OWNER_CHARS_MAX: usize = 512;
/// What a stream has to hold at least, in bytes.
const STREAM_BYTES_MIN: u64 = 1 << 20;
/// The largest that a server takes.
const STREAM_BYTES_LIMIT: u64 = i64::MAX as u64;

/// `[webhooks]`: messages to owners of payments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhooksConfig {
    /// Whether there are any; off unless it is said. While they are off nothing is registered, put into a queue or delivered.
    pub enabled: bool,
    /// Ed25519 seed, 0x and 64 hex digits, with which messages are signed; without it a key that is derived from `[gateway] key`.
    /// All gateways on the same streams need the same.
    pub key: Option<Secret>,
    /// Keys that messages are signed with besides, while receivers go over to the current one.
    pub former_keys: Vec<Secret>,
    /// Origins of endpoints that are called whatever their scheme and address, each for one owner: a DID, or an account behind its
    /// namespace as `eip155:0x…`.
    pub origins: BTreeMap<String, String>,
    /// Webhooks of one owner.
    pub of_owner_max: usize,
    /// Webhooks of all owners.
    pub webhooks_max: usize,
    /// The most that each of the streams of webhooks and of their deliveries holds, in bytes, when they are made. One that is full takes
    /// nothing more.
    pub stream_bytes_max: u64,
    /// Calls at a time; a quarter as many go to endpoints that fail, are slow or have not succeeded yet, and a sixteenth to those of one
    /// owner.
    pub calls_max: usize,
    /// How long one call may take, in milliseconds.
    pub call_ms_max: u64,
    /// Pauses before the second attempt, the third, and so on, in seconds; together at most three days.
    pub retry_seconds: Vec<u64>,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            key: None,
            former_keys: Vec::new(),
            origins: BTreeMap::new(),
            of_owner_max: 10,
            webhooks_max: 10_000,
            stream_bytes_max: 1 << 30,
            calls_max: 256,
            call_ms_max: 10_000,
            retry_seconds: vec![5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 72_000, 85_000],
        }
    }
}

impl WebhooksConfig {
    /// The configured keys, the current one first; empty where none is configured.
    pub fn signing_keys(&self) -> Vec<SigningKey> {
        self.key.iter().chain(&self.former_keys).filter_map(signing_key).collect()
    }

    /// The pauses of the timetable.
    pub fn pauses(&self) -> Vec<Duration> {
        self.retry_seconds.iter().copied().map(Duration::from_secs).collect()
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let is_key = |key: &Secret| signing_key(key).is_some();
        require(self.key.iter().all(is_key), "webhooks.key", "must be 0x and 64 hex digits")?;
        let rule = "must be at most 4 times 0x and 64 hex digits";
        let fits = self.former_keys.len() <= FORMER_KEYS_LIMIT && self.former_keys.iter().all(is_key);
        require(fits, "webhooks.former_keys", rule)?;
        let rule = "must be empty where there is no webhooks.key";
        require(self.key.is_some() || self.former_keys.is_empty(), "webhooks.former_keys", rule)?;
        let rule = "must be origins, http(s)://host[:port] without a path, each once";
        let normalised: Option<BTreeSet<String>> = self.origins.keys().map(|text| origin(text)).collect();
        let fits = normalised.is_some_and(|origins| origins.len() == self.origins.len());
        require(fits, "webhooks.origins", rule)?;
        let rule = "must name an owner for each: a DID, or an account behind its namespace";
        let is_owner = |text: &String| text.len() <= OWNER_CHARS_MAX && text.split(':').all(|part| !part.is_empty());
        let fits = self.origins.values().all(|owner| owner.contains(':') && is_owner(owner));
        require(fits, "webhooks.origins", rule)?;
        require((1..=OF_OWNER_LIMIT).contains(&self.of_owner_max), "webhooks.of_owner_max", "must be 1 to 1000")?;
        let (webhooks, calls) = (self.webhooks_max, self.calls_max);
        require((1..=COUNT_LIMIT).contains(&webhooks), "webhooks.webhooks_max", "must be 1 to 1000000")?;
        let bytes = STREAM_BYTES_MIN..=STREAM_BYTES_LIMIT;
        require(bytes.contains(&self.stream_bytes_max), "webhooks.stream_bytes_max", "must be at least 1048576")?;
        require((1..=10_000).contains(&calls), "webhooks.calls_max", "must be 1 to 10000")?;
        require((100..=CALL_MS_LIMIT).contains(&self.call_ms_max), "webhooks.call_ms_max", "must be 100 to 60000")?;
        let total = self.retry_seconds.iter().fold(0_u64, |sum, pause| sum.saturating_add(*pause));
        let fits = self.retry_seconds.len() <= RETRIES_LIMIT && total <= RETRIES_SECONDS_LIMIT;
        require(fits, "webhooks.retry_seconds", "must be at most 32, and together at most 259200")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = "did:web:shop.example";

    fn origins(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(origin, owner)| ((*origin).to_owned(), (*owner).to_owned())).collect()
    }

    #[test]
    fn they_are_off_unless_an_operator_turns_them_on() {
        assert!(!WebhooksConfig::default().enabled);
        let text = r#"enabled = true
            origins = { "http://intranet:8080" = "did:web:shop.example" }"#;
        let config: WebhooksConfig = toml::from_str(text).unwrap();
        config.check().unwrap();
        assert!(config.enabled);
        assert_eq!(config.origins, origins(&[("http://intranet:8080", SHOP)]));
    }

    fn refused(change: impl FnOnce(&mut WebhooksConfig)) -> String {
        let mut config = WebhooksConfig::default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn the_defaults_hold_and_their_retries_end_within_three_days() {
        let config = WebhooksConfig::default();
        config.check().unwrap();
        assert!(config.retry_seconds.iter().sum::<u64>() <= RETRIES_SECONDS_LIMIT);
        assert!(config.signing_keys().is_empty());
    }

    #[test]
    fn values_are_checked_and_the_key_is_named() {
        let seed = || Secret::new(format!("0x{}", "07".repeat(32)));
        for (error, key) in [
            (refused(|config| config.key = Some(Secret::new("0x07"))), "webhooks.key"),
            (refused(|config| config.former_keys = vec![seed()]), "webhooks.former_keys"),
            (refused(|config| config.origins = origins(&[("https://shop.example/hooks", SHOP)])), "webhooks.origins"),
            (refused(|config| config.origins = origins(&[("http://shop", "")])), "webhooks.origins"),
            (refused(|config| config.origins = origins(&[("http://shop", "shop")])), "webhooks.origins"),
            (
                refused(|config| config.origins = origins(&[("http://shop", SHOP), ("http://SHOP:80", "did:web:x")])),
                "webhooks.origins",
            ),
            (refused(|config| config.stream_bytes_max = 1), "webhooks.stream_bytes_max"),
            (refused(|config| config.of_owner_max = 0), "webhooks.of_owner_max"),
            (refused(|config| config.webhooks_max = 0), "webhooks.webhooks_max"),
            (refused(|config| config.calls_max = 0), "webhooks.calls_max"),
            (refused(|config| config.call_ms_max = 99), "webhooks.call_ms_max"),
            (refused(|config| config.retry_seconds = vec![u64::MAX, 1]), "webhooks.retry_seconds"),
            (refused(|config| config.retry_seconds = vec![1; 33]), "webhooks.retry_seconds"),
        ] {
            assert!(error.starts_with(&format!("{key}: ")), "{error}");
        }
        let former = Secret::new(format!("0x{}", "08".repeat(32)));
        let config = WebhooksConfig { key: Some(seed()), former_keys: vec![former], ..WebhooksConfig::default() };
        config.check().unwrap();
        let keys: Vec<[u8; 32]> = config.signing_keys().iter().map(SigningKey::to_bytes).collect();
        assert_eq!(keys, [[7; 32], [8; 32]]);
    }
}
