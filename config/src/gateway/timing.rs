//! Timing settings of a gateway: the windows of payments, x402's hold, releases, the watchdog.

use std::time::Duration;

use serde::Deserialize;

use sagas::release::ReleaseRule;

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

/// `[deadlines]`: the least windows in which a new payment can succeed at all, and the longest for which anything is
/// kept open for one. What lies outside is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadlinesConfig {
    /// Least time from acceptance to `quote_deadline`, in milliseconds.
    pub quote_ms_min: u64,
    /// Longest time from acceptance to `quote_deadline`, in seconds: settlers are asked for so long.
    pub quote_seconds_max: u64,
    /// Least time from `quote_deadline` to `fulfillment_deadline`, in milliseconds. Whatever it says, a payment's deadlines lie
    /// in different seconds, because chains count in whole ones.
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
            settlement_ms_min: 0,
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
