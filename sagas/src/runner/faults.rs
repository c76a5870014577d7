//! Counting faults in a row, and saying so in the log without flooding it.

use events::time::Timestamp;

use super::{Engine, backoff};

/// From here on one fault in so many is logged; at the default back-off one in three quarters of an hour.
const LOUD_EVERY_MAX: u32 = 256;
/// So many in a row are lasting trouble.
const LASTING: u32 = 4;

/// Faults in a row.
#[derive(Debug, Default)]
pub(super) struct Faults {
    count: u32,
    since: Option<Timestamp>,
}

impl Faults {
    /// Counts one more. Whether it is to be logged: the first, second, fourth, eighth … are, so that lasting trouble stays
    /// visible at growing intervals.
    pub(super) fn another(&mut self, now: Timestamp) -> bool {
        self.count = self.count.saturating_add(1);
        self.since.get_or_insert(now);
        self.count.is_power_of_two() || self.count.is_multiple_of(LOUD_EVERY_MAX)
    }

    /// Faults so far.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// When the first of them was, as text for the log.
    pub(super) fn since(&self) -> String {
        self.since.map(|since| since.to_rfc3339()).unwrap_or_default()
    }

    /// Forgets them, because something worked. Gives them back when they lasted, so that their end is worth a line.
    pub(super) fn over(&mut self) -> Option<Self> {
        let over = std::mem::take(self);
        (over.count >= LASTING).then_some(over)
    }
}

impl Engine {
    /// Waits as long as one more fault in a row calls for, after it was said in the log where that is due.
    pub(super) async fn sit_out(&self, faults: &mut Faults, say: impl FnOnce(&Faults)) {
        if faults.another(self.ports().clock.now()) {
            say(faults);
        }
        self.ports().clock.sleep(backoff(self.options(), faults.count())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_that_lasts_is_logged_ever_more_rarely_but_for_ever() {
        let now = events::time::from_unix_seconds(1_800_000_000).unwrap();
        let mut faults = Faults::default();
        let loud: Vec<u32> = (1..=1100).filter(|_| faults.another(now)).collect();
        assert_eq!(loud, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024]);
        assert_eq!(faults.over().map(|over| over.count()), Some(1100));
        assert_eq!(faults.count(), 0);
        faults.another(now);
        assert!(faults.over().is_none());
    }
}
