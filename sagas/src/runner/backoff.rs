//! Back-off: the wait after each fault in a row, with a throttled log. A fault that only an operator can mend raises an alarm.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use events::time::Timestamp;

use super::{Engine, pause_after};
use crate::ports::Transient;

/// From here on one fault in so many is logged; at the default back-off one in three quarters of an hour.
const LOUD_EVERY_MAX: u32 = 256;
/// So many in a row are lasting trouble.
const LASTING: u32 = 4;

/// The back-off of one task: its faults in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    count: u32,
    since: Option<Timestamp>,
    /// Raised while the newest is one that only an operator can mend.
    alarm: Option<Alarm>,
}

/// How many streams wait for an operator to mend the configuration, in this process.
#[derive(Debug, Clone, Default)]
pub struct Misconfigured(Arc<AtomicU64>);

impl Misconfigured {
    /// How many.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The alarm that there are such, in words that anyone may read: the reasons are in the log.
    pub fn alarm(&self) -> Option<String> {
        let count = self.count();
        (count > 0).then(|| format!("payments and batches that wait for the configuration to be mended: {count}"))
    }
}

/// One of those that are counted, for as long as it is held.
#[derive(Debug)]
struct Alarm(Misconfigured);

impl Alarm {
    fn raise(misconfigured: &Misconfigured) -> Self {
        misconfigured.0.fetch_add(1, Ordering::Relaxed);
        Self(misconfigured.clone())
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Logs a transient fault with the given fields: as an error where only an operator can mend it.
macro_rules! log_transient {
    ($fault:ident, $backoff:ident, $($fields:tt)*) => {{
        let (kind, faults, since) = ($fault.kind(), $backoff.count(), $backoff.since());
        if $fault.is_misconfigured() {
            let what = "MISCONFIGURED: only an operator can mend this";
            tracing::error!($($fields)*, faults, since, kind, fault = %$fault, "{what}");
        } else {
            tracing::warn!($($fields)*, faults, since, kind, fault = %$fault, "transient fault");
        }
    }};
}
pub(super) use log_transient;

impl Backoff {
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
    pub(super) async fn back_off(&self, backoff: &mut Backoff, say: impl FnOnce(&Backoff)) {
        self.ports().clock.sleep(self.pause_after_fault(backoff, say)).await;
    }

    /// The same after a transient fault.
    pub(super) async fn back_off_transient(
        &self,
        backoff: &mut Backoff,
        fault: &Transient,
        say: impl FnOnce(&Backoff),
    ) {
        self.ports().clock.sleep(self.pause_after_transient(backoff, fault, say)).await;
    }

    /// How long one more fault in a row is to be waited for, after it was said in the log where that is due.
    pub(super) fn pause_after_fault(&self, backoff: &mut Backoff, say: impl FnOnce(&Backoff)) -> Duration {
        backoff.alarm = None;
        self.counted(backoff, say)
    }

    /// The same after a transient fault. One that only an operator can mend raises the alarm once it lasts, and is waited for
    /// longest from then on: a single answer of a node may be wrong, or brought about by somebody else.
    pub(super) fn pause_after_transient(
        &self,
        backoff: &mut Backoff,
        fault: &Transient,
        say: impl FnOnce(&Backoff),
    ) -> Duration {
        backoff.alarm = match fault.is_misconfigured() && backoff.count() + 1 >= LASTING {
            true => backoff.alarm.take().or_else(|| Some(Alarm::raise(self.misconfigured()))),
            false => None,
        };
        self.counted(backoff, say)
    }

    fn counted(&self, backoff: &mut Backoff, say: impl FnOnce(&Backoff)) -> Duration {
        if backoff.another(self.ports().clock.now()) {
            say(backoff);
        }
        // Time in which a payment can be made is short, so it is waited for longest only while the alarm stands.
        match backoff.alarm {
            Some(_) => self.options().backoff_max,
            None => pause_after(self.options(), backoff.count()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_that_lasts_is_logged_ever_more_rarely_but_for_ever() {
        let now = events::time::from_unix_seconds(1_800_000_000).unwrap();
        let mut backoff = Backoff::default();
        let loud: Vec<u32> = (1..=1100).filter(|_| backoff.another(now)).collect();
        assert_eq!(loud, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024]);
        assert_eq!(backoff.over().map(|over| over.count()), Some(1100));
        assert_eq!(backoff.count(), 0);
        backoff.another(now);
        assert!(backoff.over().is_none());
    }

    #[test]
    fn an_alarm_lasts_as_long_as_what_raised_it() {
        let misconfigured = Misconfigured::default();
        assert_eq!(misconfigured.alarm(), None);
        let mut backoff = Backoff { alarm: Some(Alarm::raise(&misconfigured)), ..Backoff::default() };
        let other = Backoff { alarm: Some(Alarm::raise(&misconfigured)), ..Backoff::default() };
        assert!(misconfigured.alarm().is_some_and(|text| text.ends_with(": 2")));
        backoff.over();
        assert_eq!(misconfigured.count(), 1);
        drop(other);
        assert_eq!(misconfigured.alarm(), None);
    }
}
