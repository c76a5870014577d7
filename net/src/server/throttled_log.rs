//! A throttled log: what happens too often for a line in the log each time, as refusals do, is counted and told of at
//! times. A line each would be the next overload.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Least time between two lines in the log.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How often something happened, told of at most once in ten seconds.
pub struct ThrottledLog {
    begun: Instant,
    count: AtomicU64,
    /// When it was logged last, in milliseconds since `begun` and one more; zero for never.
    last_logged_ms: AtomicU64,
}

impl Default for ThrottledLog {
    fn default() -> Self {
        Self { begun: Instant::now(), count: AtomicU64::new(0), last_logged_ms: AtomicU64::new(0) }
    }
}

impl ThrottledLog {
    /// Counts one, and says how many there were in all when it is time to tell.
    pub fn count(&self) -> Option<u64> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        let last_logged_ms = self.last_logged_ms.load(Ordering::Relaxed);
        let is_due = last_logged_ms == 0 || u128::from(now.saturating_sub(last_logged_ms)) >= TELL_EVERY.as_millis();
        // Of those who come at the same time, one tells.
        let tells = is_due
            && self.last_logged_ms.compare_exchange(last_logged_ms, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        tells.then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_and_what_follows_soon_is_not() {
        let log = ThrottledLog::default();
        assert_eq!(log.count(), Some(1));
        assert_eq!((log.count(), log.count()), (None, None));
        // As if ten seconds had passed.
        let log = ThrottledLog { begun: Instant::now() - TELL_EVERY, last_logged_ms: AtomicU64::new(1), ..log };
        assert_eq!(log.count(), Some(4));
    }
}
