//! The reassignment rule: for how many settlers in turn an escrow is reserved, and how long quotes are collected for the next
//! (ADR 148).

use std::time::Duration;

use chrono::TimeDelta;

use events::time::Timestamp;

/// How another settler is found for an escrow whose reservation lapsed.
///
/// It is applied once to each reservation that lapses, and the outcome is journaled
/// ([`ReservationLapsed`](events::event::ReservationLapsed)): what is configured later changes nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReassignmentRule {
    /// Most reassignments of one escrow, each of which costs the gateway gas; 0 for none.
    pub reassignments_max: u32,
    /// How long quotes are collected, if not all that were asked answer before.
    pub window: Duration,
    /// Whether a deposit is made of what the dearest of the next quotes asks for, so that the escrow can be reassigned to each of
    /// them. What is over goes back at the release, which costs one more transfer.
    pub deposits_for_next: bool,
}

impl ReassignmentRule {
    /// Up to three, each after two seconds.
    pub const DEFAULT: Self = Self { reassignments_max: 3, window: Duration::from_secs(2), deposits_for_next: true };

    /// Until when quotes are collected for an escrow whose reservation lapses at `at`, after `before` others; `None` where the
    /// money goes back.
    pub fn quote_deadline(&self, before: usize, at: Timestamp) -> Option<Timestamp> {
        let is_left = u32::try_from(before).is_ok_and(|before| before < self.reassignments_max);
        let window = TimeDelta::from_std(self.window).ok().filter(|_| is_left)?;
        at.checked_add_signed(window)
    }
}

impl Default for ReassignmentRule {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use events::time::from_unix_seconds;

    use super::*;

    #[test]
    fn an_escrow_is_reassigned_so_often_and_no_more() {
        let at = from_unix_seconds(1_800_000_000).unwrap();
        let rule =
            ReassignmentRule { reassignments_max: 2, window: Duration::from_secs(3), ..ReassignmentRule::DEFAULT };
        let until = from_unix_seconds(1_800_000_003);
        let deadlines = [0, 1, 2, 3].map(|before| rule.quote_deadline(before, at));
        assert_eq!(deadlines, [until, until, None, None]);
        // A window beyond the calendar is none.
        for window in [Duration::MAX, Duration::from_millis(i64::MAX.unsigned_abs())] {
            assert_eq!(ReassignmentRule { window, ..rule }.quote_deadline(0, at), None);
        }
    }
}
