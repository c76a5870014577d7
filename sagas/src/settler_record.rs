//! Settlers' records: in how many auctions each was asked and offered, how its awards ended, and how long one that missed is passed
//! over. Pure: who sees the same events says the same (ADR 146).

use std::{collections::BTreeSet, time::Duration};

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use events::{Hash32, time::Timestamp};

/// Outcomes of awards that a record keeps, the newest.
pub const OUTCOMES_KEPT: usize = 20;
/// Times of deliveries that a record keeps, the newest.
pub const TIMES_KEPT: usize = 101;

/// What became of a settler's awards, or a part of them. Its serde form is the one that is stored, and no wire format.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettlerRecord {
    /// Auctions in which it was asked.
    pub asked: u64,
    /// Of these, those in which its quote was eligible.
    pub offered: u64,
    /// Of these, those in which it declined.
    pub declined: u64,
    /// Awards.
    pub won: u64,
    /// Awards that it accepted, and for which a deposit was then signed or found.
    pub acknowledged: u64,
    /// Awards that it refused.
    pub refused: u64,
    /// Awards that it did not answer in time.
    pub unanswered: u64,
    /// Payments that it delivered.
    pub delivered: u64,
    /// Of these, those in whose delivery the last quarter was used of the time from the escrow to the promise.
    pub late: u64,
    /// Payments that were in escrow for it and that it did not deliver in its time.
    pub missed: u64,
    /// When it won last.
    pub last_won_at: Option<Timestamp>,
    /// The newest award of each originator that was delivered or missed, oldest first; at most [`OUTCOMES_KEPT`]. One payer, which
    /// may be the settler itself or a rival, says no more about it than any other, and what others may have brought about is
    /// not among them.
    pub outcomes: Vec<AwardOutcome>,
    /// How long its newest deliveries took, each with when it was made, oldest first; at most [`TIMES_KEPT`].
    pub times: Vec<DeliveryTime>,
}

/// How an award ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AwardOutcome {
    /// When.
    pub at: Timestamp,
    /// Whether it was missed; what is a miss, `projections` says (ADR 146).
    pub is_missed: bool,
    /// Of whose payment, see [`originator_tag`].
    pub originator: u64,
}

/// What tells originators apart in a record, and no more than that: the first eight bytes of the hash.
pub fn originator_tag(originator: &str) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = Hash32::sha256(originator).0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// How long a delivery took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeliveryTime {
    /// When it was made.
    pub at: Timestamp,
    /// Seconds from the block that secured the escrow to the block that holds the delivery.
    pub seconds: u32,
}

impl SettlerRecord {
    /// Adds how an award ended.
    pub fn ended(&mut self, outcome: AwardOutcome) {
        self.keep_outcomes([outcome]);
    }

    /// Adds how long a delivery took.
    pub fn took(&mut self, time: DeliveryTime) {
        keep_newest(&mut self.times, [time], TIMES_KEPT);
    }

    /// Adds `other`, the record of other payments.
    pub fn merge(&mut self, other: &Self) {
        self.asked += other.asked;
        self.offered += other.offered;
        self.declined += other.declined;
        self.won += other.won;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
        self.delivered += other.delivered;
        self.late += other.late;
        self.missed += other.missed;
        self.last_won_at = self.last_won_at.max(other.last_won_at);
        self.keep_outcomes(other.outcomes.iter().copied());
        keep_newest(&mut self.times, other.times.iter().copied(), TIMES_KEPT);
    }

    fn keep_outcomes(&mut self, more: impl IntoIterator<Item = AwardOutcome>) {
        self.outcomes.extend(more);
        self.outcomes.sort_unstable();
        self.outcomes.reverse();
        let mut seen = BTreeSet::new();
        self.outcomes.retain(|outcome| seen.insert(outcome.originator));
        self.outcomes.truncate(OUTCOMES_KEPT);
        self.outcomes.reverse();
    }

    /// The median of [`SettlerRecord::times`], seconds; `None` without a delivery.
    pub fn median_seconds(&self) -> Option<u32> {
        let mut seconds: Vec<u32> = self.times.iter().map(|time| time.seconds).collect();
        seconds.sort_unstable();
        seconds.get(seconds.len() / 2).copied()
    }
}

fn keep_newest<T: Ord>(kept: &mut Vec<T>, more: impl IntoIterator<Item = T>, most: usize) {
    kept.extend(more);
    kept.sort_unstable();
    let surplus = kept.len().saturating_sub(most);
    kept.drain(..surplus);
}

/// When a settler that missed awards is passed over, and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseRule {
    /// Awards that are looked at, the newest, one an originator; [`OUTCOMES_KEPT`] at most count.
    pub of: usize,
    /// So many of them missed begin a pause; 0 for never.
    pub missed: usize,
    /// The first pause, from the last miss on. Each further miss doubles it.
    pub pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

impl PauseRule {
    /// Three of the newest ten; a minute, and an hour at most.
    pub const DEFAULT: Self =
        Self { of: 10, missed: 3, pause: Duration::from_secs(60), pause_max: Duration::from_secs(3_600) };

    /// Until when the settler of `record` is passed over; `None` when it is not, at `now`.
    pub fn passed_over_until(&self, record: &SettlerRecord, now: Timestamp) -> Option<Timestamp> {
        let newest = record.outcomes.iter().rev().take(self.of);
        let missed: Vec<Timestamp> = newest.filter(|outcome| outcome.is_missed).map(|outcome| outcome.at).collect();
        let beyond = missed.len().checked_sub(self.missed).filter(|_| self.missed > 0)?;
        let factor = u32::try_from(beyond).ok().and_then(|beyond| 1_u32.checked_shl(beyond)).unwrap_or(u32::MAX);
        let pause = self.pause.saturating_mul(factor).min(self.pause_max);
        let until = missed.first()?.checked_add_signed(TimeDelta::from_std(pause).ok()?)?;
        (until > now).then_some(until)
    }
}

impl Default for PauseRule {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    /// Of awards that ended at these seconds, each of another originator.
    fn record(outcomes: impl IntoIterator<Item = (i64, bool)>) -> SettlerRecord {
        of_originators((0..).zip(outcomes).map(|(originator, (seconds, is_missed))| (seconds, is_missed, originator)))
    }

    fn of_originators(outcomes: impl IntoIterator<Item = (i64, bool, u64)>) -> SettlerRecord {
        let mut record = SettlerRecord::default();
        for (seconds, is_missed, originator) in outcomes {
            record.ended(AwardOutcome { at: at(seconds), is_missed, originator });
        }
        record
    }

    #[test]
    fn who_missed_often_is_passed_over_for_a_growing_while() {
        let rule = PauseRule::DEFAULT;
        let until = |outcomes: Vec<(i64, bool)>| rule.passed_over_until(&record(outcomes), at(5));
        assert_eq!(until(vec![]), None);
        assert_eq!(until(vec![(1, true), (2, true)]), None);
        assert_eq!(until(vec![(1, true), (2, true), (3, true)]), Some(at(63)));
        assert_eq!(until((1..=4).map(|second| (second, true)).collect()), Some(at(124)));
        assert_eq!(until((0..=9).map(|second| (second - 5, true)).collect()), Some(at(4 + 3_600)));
        // Deliveries since are no excuse for what it is paused for, and lead out of it in the end.
        assert_eq!(until(vec![(1, true), (2, true), (3, true), (4, false)]), Some(at(63)));
        let mended = (1..=3).map(|second| (second, true)).chain((4..=11).map(|second| (second, false)));
        assert_eq!(rule.passed_over_until(&record(mended), at(12)), None);
        // A pause that is over.
        assert_eq!(rule.passed_over_until(&record((1..=3).map(|second| (second, true))), at(63)), None);
        let never = PauseRule { missed: 0, ..rule };
        assert_eq!(never.passed_over_until(&record((1..=9).map(|second| (second, true))), at(9)), None);
    }

    #[test]
    fn a_payer_counts_once() {
        let rule = PauseRule::DEFAULT;
        let mut record = SettlerRecord::default();
        for (seconds, is_missed, originator) in [(1, true, "a"), (2, true, "a"), (3, true, "a"), (4, true, "b")] {
            record.ended(AwardOutcome { at: at(seconds), is_missed, originator: originator_tag(originator) });
        }
        assert_eq!(rule.passed_over_until(&record, at(5)), None);
        let missed = AwardOutcome { at: at(5), is_missed: true, originator: originator_tag("c") };
        record.ended(missed);
        assert_eq!(rule.passed_over_until(&record, at(5)), Some(at(65)));
        // Nor does one that is served again and again lead out of a pause.
        for seconds in 6..60 {
            record.ended(AwardOutcome { at: at(seconds), is_missed: false, originator: originator_tag("d") });
        }
        assert_eq!(rule.passed_over_until(&record, at(60)), Some(at(65)));
    }

    proptest! {
        /// However the payments are spread over shards, the record of all is the same.
        #[test]
        fn parts_add_up(
            outcomes in prop::collection::vec((0..1_000_i64, any::<bool>(), 0..30_u64, 0..4_usize), 0..60),
        ) {
            let part = |of: Option<usize>| {
                let mine = outcomes.iter().filter(|(.., shard)| of.is_none_or(|of| of == *shard));
                of_originators(mine.map(|(seconds, is_missed, originator, _)| (*seconds, *is_missed, *originator)))
            };
            let mut sum = SettlerRecord::default();
            for shard in 0..4 {
                sum.merge(&part(Some(shard)));
            }
            prop_assert_eq!(part(None), sum);
        }
    }

    #[test]
    fn the_median_is_of_the_newest_deliveries() {
        let mut record = SettlerRecord::default();
        assert_eq!(record.median_seconds(), None);
        for second in 0..200 {
            record.took(DeliveryTime { at: at(second), seconds: second as u32 });
        }
        assert_eq!(record.times.len(), TIMES_KEPT);
        assert_eq!(record.median_seconds(), Some(149));
    }
}
