//! A token bucket: how often a settler may change.

use std::time::Duration;

use tokio::time::Instant;

/// Changes that may follow one another: a settler that starts, finds its chains one by one, and is started again.
pub(super) const BURST: u32 = 4;
/// After this time one more change counts.
pub(super) const REFILL: Duration = Duration::from_secs(20);

/// What is left of a settler's changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct TokenBucket {
    left: u32,
    since: Instant,
}

impl TokenBucket {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BURST, since: now }
    }

    /// Takes one change, if one is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let taken = self.left > 0;
        self.left -= u32::from(taken);
        taken
    }

    /// Whether it is as full as a new one, so that it need not be remembered.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        let mut refilled = *self;
        refilled.refill(now);
        refilled.left == BURST
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        let more = u32::try_from(passed.as_millis() / REFILL.as_millis()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + REFILL * more };
    }
}
