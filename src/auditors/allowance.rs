//! Allowances of auditors: how often each may ask, and how many consumers it has.

use std::collections::{HashMap, HashSet};

use tokio::time::Instant;

/// Requests that an auditor may make at once: a consumer for each shard of 32, shown and deleted again, takes 96.
const ASKS_MAX: f64 = 128.0;
/// Requests a second of an auditor that has made as many.
const ASKS_PER_SECOND: f64 = 4.0;
/// Most consumers that an auditor has of one stream.
pub(super) const OWN_MAX: usize = 8;
/// Most consumers of a stream, of all auditors and of the gateways, beyond which auditors get no more.
pub(super) const STREAM_MAX: usize = 64;

/// What each auditor has asked for. Auditors are those that nats-server has let in, so they are few.
#[derive(Default)]
pub(super) struct Allowances(HashMap<String, Allowance>);

struct Allowance {
    asks: f64,
    at: Instant,
    /// Names of its consumers, by stream.
    made: HashMap<String, Vec<String>>,
}

impl Allowances {
    /// Whether `auditor` may ask for one thing more.
    pub(super) fn ask(&mut self, auditor: &str) -> bool {
        let allowance = self.of(auditor);
        let now = Instant::now();
        let grown = now.duration_since(allowance.at).as_secs_f64() * ASKS_PER_SECOND;
        allowance.asks = (allowance.asks + grown).min(ASKS_MAX);
        allowance.at = now;
        let may = allowance.asks >= 1.0;
        if may {
            allowance.asks -= 1.0;
        }
        may
    }

    /// Whether `auditor` may have one consumer more of `stream`, whose consumers are `alive`.
    pub(super) fn room(&mut self, auditor: &str, stream: &str, alive: &HashSet<String>) -> bool {
        let made = self.of(auditor).made.entry(stream.to_owned()).or_default();
        made.retain(|name| alive.contains(name));
        made.len() < OWN_MAX && alive.len() < STREAM_MAX
    }

    /// `auditor` has the consumer `name` of `stream`.
    pub(super) fn made(&mut self, auditor: &str, stream: &str, name: String) {
        let made = self.of(auditor).made.entry(stream.to_owned()).or_default();
        if !made.contains(&name) {
            made.push(name);
        }
    }

    fn of(&mut self, auditor: &str) -> &mut Allowance {
        self.0.entry(auditor.to_owned()).or_insert_with(|| Allowance {
            asks: ASKS_MAX,
            at: Instant::now(),
            made: HashMap::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_asked_often_waits_and_nobody_else_does() {
        let mut allowances = Allowances::default();
        let asked = (0..1_000).filter(|_| allowances.ask("UA")).count();
        assert_eq!(asked, 128);
        assert!(allowances.ask("UB"));
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!((0..1_000).filter(|_| allowances.ask("UA")).count(), 2);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!((0..1_000).filter(|_| allowances.ask("UA")).count(), 128);
    }

    #[test]
    fn an_auditor_has_few_consumers_of_a_stream_and_those_that_are_gone_do_not_count() {
        let mut allowances = Allowances::default();
        let mut alive = HashSet::new();
        for number in 0..OWN_MAX {
            assert!(allowances.room("UA", "EVT_00", &alive));
            allowances.made("UA", "EVT_00", number.to_string());
            alive.insert(number.to_string());
        }
        assert!(!allowances.room("UA", "EVT_00", &alive));
        assert!(allowances.room("UA", "EVT_01", &HashSet::new()) && allowances.room("UB", "EVT_00", &alive));
        alive.remove("0");
        assert!(allowances.room("UA", "EVT_00", &alive));
        let many = (0..STREAM_MAX).map(|number| format!("other {number}")).collect();
        assert!(!allowances.room("UB", "EVT_00", &many));
    }
}
