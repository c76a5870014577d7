//! Settlers' records in auctions: who is passed over for awards that it missed, and which policies a record meets.

use std::sync::Arc;

use config::PolicyRecordConfig;
use events::{Did, time::Timestamp};
use sagas::{
    ports::SettlerRecords,
    settler_record::{PauseRule, SettlerRecord},
};

/// The settlers' records, where they can be read, and the rule by which they decide.
pub(super) struct Records {
    read: Option<Arc<dyn SettlerRecords>>,
    pauses: PauseRule,
}

impl Records {
    pub(super) fn new(read: Option<Arc<dyn SettlerRecords>>, pauses: PauseRule) -> Self {
        Self { read, pauses }
    }

    /// Whether anybody can be passed over at all.
    pub(super) fn may_pass_over(&self) -> bool {
        self.read.is_some() && self.pauses.missed > 0
    }

    /// Until when the settler is passed over; `None` when it is not, at `now`, or when nothing is known of it.
    pub(super) fn passed_over_until(&self, settler: &Did, now: Timestamp) -> Option<Timestamp> {
        let read = self.read.as_ref().filter(|_| self.may_pass_over())?;
        self.pauses.passed_over_until(&*read.record(settler)?, now)
    }

    /// Whether the settler's record is as a policy asks; one that has none, or whose cannot be read for now, does not meet it.
    pub(super) fn meets(&self, settler: &Did, rule: &PolicyRecordConfig) -> bool {
        let record = self.read.as_ref().and_then(|read| read.record(settler));
        record.is_some_and(|record| meets(&record, rule))
    }
}

fn meets(record: &SettlerRecord, rule: &PolicyRecordConfig) -> bool {
    let missed = record.outcomes.iter().filter(|outcome| outcome.is_missed).count() as u64;
    let allowed = u64::from(rule.missed_percent_max) * record.outcomes.len() as u64;
    record.delivered >= rule.delivered_min && missed * 100 <= allowed
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use chrono::{DateTime, TimeDelta};
    use ed25519_dalek::SigningKey;

    use sagas::settler_record::AwardOutcome;

    use super::*;

    struct Kept(HashMap<Did, Arc<SettlerRecord>>);

    impl SettlerRecords for Kept {
        fn record(&self, settler: &Did) -> Option<Arc<SettlerRecord>> {
            self.0.get(settler).cloned()
        }
    }

    fn now() -> Timestamp {
        DateTime::from_timestamp(1_893_456_000, 0).unwrap()
    }

    fn settler() -> Did {
        Did::from_ed25519(&SigningKey::from_bytes(&[1; 32]).verifying_key())
    }

    /// One that delivered so often, and of whose newest awards so many were missed, the last of them at [`now`].
    fn record(delivered: u64, missed: usize, met: usize) -> SettlerRecord {
        let mut record = SettlerRecord { delivered, ..SettlerRecord::default() };
        for nth in 0..missed + met {
            let at = now() - TimeDelta::milliseconds(i64::try_from(missed + met - 1 - nth).unwrap());
            record.ended(AwardOutcome { at, is_missed: nth >= met, originator: nth as u64 });
        }
        record
    }

    fn records(of: Option<SettlerRecord>, pauses: PauseRule) -> Records {
        let kept = of.map(|record| (settler(), Arc::new(record)));
        Records::new(Some(Arc::new(Kept(kept.into_iter().collect()))), pauses)
    }

    #[test]
    fn who_missed_is_passed_over_and_who_is_unknown_is_not() {
        let until = |records: &Records| records.passed_over_until(&settler(), now());
        let (rule, paused) = (PauseRule::DEFAULT, || Some(record(7, 3, 7)));
        assert_eq!(until(&records(paused(), rule)), Some(now() + TimeDelta::minutes(1)));
        assert_eq!(until(&records(Some(record(7, 2, 8)), rule)), None);
        assert_eq!(until(&records(None, rule)), None);
        assert_eq!(until(&records(paused(), PauseRule { missed: 0, ..rule })), None);
        let unread = Records::new(None, rule);
        assert_eq!((until(&unread), unread.may_pass_over()), (None, false));
    }

    #[test]
    fn a_policy_is_met_by_deliveries_and_by_few_misses_among_the_newest_awards() {
        let rule = PolicyRecordConfig { delivered_min: 20, missed_percent_max: 5 };
        let meets = |record: Option<SettlerRecord>| records(record, PauseRule::DEFAULT).meets(&settler(), &rule);
        assert!(!meets(None));
        assert!(!meets(Some(SettlerRecord::default())));
        assert!(!meets(Some(record(19, 0, 19))));
        assert!(meets(Some(record(20, 0, 20))));
        assert!(meets(Some(record(500, 1, 19))));
        assert!(!meets(Some(record(500, 2, 18))));
        assert!(!meets(Some(record(20, 1, 18))));
        let none_missed = PolicyRecordConfig { delivered_min: 1, missed_percent_max: 0 };
        assert!(super::meets(&record(1, 0, 1), &none_missed));
        assert!(!super::meets(&record(500, 1, 19), &none_missed));
        let any = PolicyRecordConfig { delivered_min: 1, missed_percent_max: 100 };
        assert!(super::meets(&record(1, 20, 0), &any));
        assert!(!Records::new(None, PauseRule::DEFAULT).meets(&settler(), &any));
    }
}
