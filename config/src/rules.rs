//! Validation helpers and limits that the rules of all roles share.

use std::path::Path;

use ed25519_dalek::SigningKey;

use journal_jetstream::connection;
use net::origin::origin;
use trace::TelemetryConfig;

use super::{Error, Secret};

/// Most of anything that is counted, and most threads.
pub(super) const COUNT_LIMIT: usize = 1_000_000;
pub(super) const HEAD_MS_LIMIT: u64 = 60_000;
pub(super) const IDLE_MS_LIMIT: u64 = 3_600_000;
pub(super) const WRITE_MS_LIMIT: u64 = 600_000;
pub(super) const BODY_MS_LIMIT: u64 = 60_000;

/// The error of a key that breaks a rule.
pub(super) fn invalid(key: impl Into<String>, rule: impl Into<String>) -> Error {
    Error::Invalid { key: key.into(), rule: rule.into() }
}

/// The same where the rule does not hold.
pub(super) fn require(holds: bool, key: &str, rule: &str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(invalid(key, rule)) }
}

/// The addresses of NATS servers, as every role names them.
pub(super) fn nats_url(url: &str, ca_file: Option<&Path>) -> Result<(), Error> {
    connection::servers(url, ca_file).map(drop).map_err(|error| invalid("nats.url", error.to_string()))
}

/// An origin: scheme, host and port, nothing behind them (spec 2.1).
pub(super) fn endpoint(key: &str, text: &str) -> Result<(), Error> {
    origin(text).map(drop).ok_or_else(|| invalid(key, "must be http(s)://host[:port] without a path"))
}

/// The Ed25519 key of a seed, 0x and 64 hex digits.
pub fn signing_key(secret: &Secret) -> Option<SigningKey> {
    let digits = secret.expose().strip_prefix("0x")?;
    let seed: [u8; 32] = hex::decode(digits).ok()?.try_into().ok()?;
    Some(SigningKey::from_bytes(&seed))
}

/// `[telemetry]`, as every role has it.
pub(super) fn telemetry(config: &TelemetryConfig) -> Result<(), Error> {
    config.check().map_err(|(key, rule)| invalid(key, rule))
}
