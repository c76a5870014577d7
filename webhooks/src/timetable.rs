//! The timetable of retries: back-off with jitter, over three days at most.

use std::time::Duration;

use chrono::TimeDelta;

use events::time::Timestamp;

/// How long an endpoint may fail before nothing is delivered to it any more, and how long one message is tried.
pub const FAILING_MAX: Duration = Duration::from_secs(3 * 24 * 3_600);
/// The pauses before the second attempt, the third, and so on, in seconds; together just under [`FAILING_MAX`].
pub const PAUSES_SECONDS: [u64; 12] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 72_000, 85_000];
/// Longest pause that an endpoint itself may ask for with `Retry-After`.
const ASKED_PAUSE_MAX: Duration = Duration::from_secs(3_600);
/// By how much, percent, a pause may be shorter. Never longer, so that the timetable ends in time.
const JITTER_PERCENT: f64 = 20.0;

/// When a message is tried again, and when no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    pauses: Vec<Duration>,
    /// How long an endpoint may fail.
    pub failing_max: Duration,
}

impl Default for Timetable {
    fn default() -> Self {
        Self::new(PAUSES_SECONDS.map(Duration::from_secs).to_vec())
    }
}

impl Timetable {
    /// One with these pauses.
    pub fn new(pauses: Vec<Duration>) -> Self {
        Self { pauses, failing_max: FAILING_MAX }
    }

    /// Attempts of one message, at most.
    pub fn attempts_max(&self) -> u32 {
        u32::try_from(self.pauses.len()).unwrap_or(u32::MAX - 1) + 1
    }

    /// When a message is tried again of which the `attempt`-th has failed at `at`; `None` when it is dead. `jitter` is between 0
    /// and 1. What the endpoint asked for is waited for within bounds.
    pub fn retry_at(&self, attempt: u32, at: Timestamp, asked: Option<Duration>, jitter: f64) -> Option<Timestamp> {
        let pause = *self.pauses.get(attempt.checked_sub(1)? as usize)?;
        let asked = asked.unwrap_or_default().min(ASKED_PAUSE_MAX);
        Some(after(at, shortened(pause, jitter).max(asked)))
    }

    /// When an endpoint is tried again after so many failures in a row beyond those that are overlooked.
    pub fn probe_at(&self, failures: u32, at: Timestamp, jitter: f64) -> Timestamp {
        let last = self.pauses.iter().rev().find(|pause| **pause <= ASKED_PAUSE_MAX).copied();
        let pause = self.pauses.get(failures as usize).copied().filter(|pause| *pause <= ASKED_PAUSE_MAX);
        after(at, shortened(pause.or(last).unwrap_or_default(), jitter))
    }

    /// Whether an endpoint that fails since `since` has failed for too long at `at`.
    pub fn is_over(&self, since: Timestamp, at: Timestamp) -> bool {
        (at - since).to_std().is_ok_and(|failing| failing >= self.failing_max)
    }
}

fn shortened(pause: Duration, jitter: f64) -> Duration {
    pause.mul_f64(1.0 - jitter.clamp(0.0, 1.0) * JITTER_PERCENT / 100.0)
}

fn after(at: Timestamp, pause: Duration) -> Timestamp {
    // A pause is an hour or a day; the calendar does not end there.
    at + TimeDelta::from_std(pause).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_timetable_ends_within_three_days() {
        let timetable = Timetable::default();
        assert_eq!(timetable.attempts_max(), 13);
        for jitter in [0.0, 0.5, 1.0] {
            let (mut now, mut pause_before) = (at(), TimeDelta::zero());
            for attempt in 1..timetable.attempts_max() {
                let next = timetable.retry_at(attempt, now, None, jitter).unwrap();
                assert!(next - now > pause_before, "pauses grow");
                (pause_before, now) = (next - now, next);
            }
            let total = (now - at()).to_std().unwrap();
            assert!(total < FAILING_MAX && total > FAILING_MAX / 2, "{total:?}");
            assert_eq!(timetable.retry_at(timetable.attempts_max(), now, None, jitter), None);
        }
        assert_eq!(timetable.retry_at(0, at(), None, 0.0), None);
    }

    #[test]
    fn an_endpoint_may_ask_for_a_pause_within_bounds() {
        let timetable = Timetable::default();
        let asked = |seconds| timetable.retry_at(1, at(), Some(Duration::from_secs(seconds)), 0.0).unwrap() - at();
        assert_eq!(asked(1), TimeDelta::seconds(5));
        assert_eq!(asked(60), TimeDelta::seconds(60));
        assert_eq!(asked(u64::MAX), TimeDelta::hours(1));
    }

    #[test]
    fn probes_of_an_endpoint_come_at_least_every_hour() {
        let timetable = Timetable::default();
        let pause = |failures| timetable.probe_at(failures, at(), 0.0) - at();
        assert_eq!((pause(0), pause(3)), (TimeDelta::seconds(5), TimeDelta::minutes(10)));
        assert_eq!(
            (pause(5), pause(9), pause(u32::MAX)),
            (TimeDelta::hours(1), TimeDelta::hours(1), TimeDelta::hours(1))
        );
        assert_eq!(Timetable::new(vec![]).probe_at(7, at(), 0.0), at());
    }

    #[test]
    fn three_days_are_over_when_they_are() {
        let timetable = Timetable::default();
        assert!(!timetable.is_over(at(), at() + TimeDelta::days(3) - TimeDelta::seconds(1)));
        assert!(timetable.is_over(at(), at() + TimeDelta::days(3)));
        assert!(!timetable.is_over(at() + TimeDelta::days(9), at()));
    }
}
