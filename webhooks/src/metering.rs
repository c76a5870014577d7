//! What is counted of webhooks (metrics). No label holds anything that an owner of webhooks chooses.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::message::Outcome;

/// Handles of what couriers count.
#[derive(Clone)]
pub struct Attempts {
    delivered: Counter,
    refused: Counter,
    dead: Counter,
    disabled: Counter,
    seconds: Histogram,
}

impl Default for Attempts {
    fn default() -> Self {
        let attempts = |outcome: &'static str| counter!("gw_webhook_attempts_total", "outcome" => outcome);
        Self {
            delivered: attempts("delivered"),
            refused: attempts("refused"),
            dead: attempts("dead"),
            disabled: counter!("gw_webhooks_disabled_total"),
            seconds: histogram!("gw_webhook_call_seconds"),
        }
    }
}

impl Attempts {
    /// An endpoint was called, and answered or not.
    pub(crate) fn called(&self, took: Duration) {
        self.seconds.record(took);
    }

    /// What came of an attempt was recorded.
    pub(crate) fn recorded(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Delivered { .. } => &self.delivered,
            Outcome::Refused { .. } => &self.refused,
            Outcome::Dead { .. } => &self.dead,
        };
        counter.increment(1);
    }

    /// A webhook was disabled.
    pub(crate) fn disabled(&self) {
        self.disabled.increment(1);
    }
}

/// How far the feed of a shard is behind: commits that were not looked at yet.
pub(crate) fn feed_lag(shard: u16) -> Gauge {
    gauge!("gw_webhook_feed_lag", "shard" => shard.to_string())
}
