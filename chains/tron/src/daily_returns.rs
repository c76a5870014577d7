//! Daily returns: how often the gateway gives back what came to deposit addresses. Each return costs it some 10 TRX and whoever brings it
//! about nothing, so a day has so many. What waits is tried again, and anyone can give it back meanwhile.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use chrono::TimeDelta;

use events::{ChainId, time::Timestamp};

/// How long one counts.
const DAY: TimeDelta = TimeDelta::hours(24);
/// How often it is said that there may be no more.
const WARN_EVERY: TimeDelta = TimeDelta::minutes(10);

/// The returns that were sent on one chain lately, by this process.
#[derive(Debug)]
pub(super) struct DailyReturns {
    chain_id: ChainId,
    max: usize,
    sent: Mutex<Sent>,
}

#[derive(Debug, Default)]
struct Sent {
    at: VecDeque<Timestamp>,
    warned_at: Option<Timestamp>,
}

impl DailyReturns {
    /// At most `max` in 24 hours.
    pub fn new(chain_id: ChainId, max: usize) -> Self {
        Self { chain_id, max, sent: Mutex::default() }
    }

    /// How many there may be in 24 hours.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Counts one more, where there may be one: before it is made, so that many at once do not each find room for the last.
    pub fn take(&self, now: Timestamp) -> bool {
        let mut sent = self.sent();
        while sent.at.front().is_some_and(|at| now - *at >= DAY) {
            sent.at.pop_front();
        }
        if sent.at.len() < self.max {
            sent.at.push_back(now);
            return true;
        }
        if sent.warned_at.is_none_or(|at| now - at >= WARN_EVERY) {
            let (chain_id, max) = (&self.chain_id, self.max);
            tracing::warn!(%chain_id, max, "money at deposit addresses waits: as much was given back in a day as may be");
            sent.warned_at = Some(now);
        }
        false
    }

    /// One that was counted at this time was not made.
    pub fn give_back(&self, taken: Timestamp) {
        let mut sent = self.sent();
        if let Some(at) = sent.at.iter().rposition(|at| *at == taken) {
            sent.at.remove(at);
        }
    }

    fn sent(&self) -> MutexGuard<'_, Sent> {
        // No holder of the lock panics.
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_so_many_and_each_counts_for_a_day() {
        let returns = DailyReturns::new("tron:728126428".parse().unwrap(), 2);
        let at = |hours: i64| Timestamp::default() + TimeDelta::hours(hours);
        assert!(returns.take(at(0)) && returns.take(at(1)));
        assert!(!returns.take(at(2)) && !returns.take(at(23)));
        assert!(returns.take(at(24)), "the first is a day old");
        assert!(!returns.take(at(24)));
        returns.give_back(at(24));
        returns.give_back(at(3));
        assert!(returns.take(at(24)), "it was not made");
        assert!(!returns.take(at(24)) && returns.take(at(25)));
    }
}
