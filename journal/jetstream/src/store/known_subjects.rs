//! What this process knows to lie in a shard: by it a message that the server would refuse is told before it spoils a batch.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

/// Most subjects that are remembered for sure; up to twice as many are.
const SUBJECTS_MAX: usize = 16 * 1024;

/// The last sequences of the subjects to which this process has stored something lately.
///
/// Subjects are known by a keyed hash, so two may be taken for one. Then a message goes by itself that need not have, and
/// the server decides all the same.
#[derive(Default)]
pub(super) struct KnownSubjects {
    hasher: RandomState,
    recent: HashMap<u64, u64>,
    older: HashMap<u64, u64>,
}

impl KnownSubjects {
    /// By what a subject is known here.
    pub(super) fn key(&self, subject: &str) -> u64 {
        self.hasher.hash_one(subject)
    }

    /// The message at `sequence` is the newest of the subject.
    pub(super) fn stored(&mut self, key: u64, sequence: u64) {
        if self.recent.len() >= SUBJECTS_MAX {
            self.older = std::mem::take(&mut self.recent);
        }
        let newest = self.recent.entry(key).or_default();
        *newest = sequence.max(*newest);
    }

    /// Whether the subject is known to have moved on, so that a message is refused which expects `expected` there.
    pub(super) fn is_beyond(&self, key: u64, expected: u64) -> bool {
        [&self.recent, &self.older].iter().any(|known| known.get(&key).is_some_and(|newest| *newest > expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_moved_on_is_told_apart_and_what_is_long_ago_is_forgotten() {
        let mut known = KnownSubjects::default();
        let (one, other) = (known.key("gw.evt.00.one"), known.key("gw.evt.00.other"));
        known.stored(one, 7);
        assert!(known.is_beyond(one, 0) && known.is_beyond(one, 6) && !known.is_beyond(one, 7));
        assert!(!known.is_beyond(other, 0));
        // An acknowledgement that is heard late takes nothing back.
        known.stored(one, 5);
        assert!(known.is_beyond(one, 6));
        for number in 0..3 * SUBJECTS_MAX as u64 {
            let key = known.key(&format!("gw.evt.00.{number}"));
            known.stored(key, 100 + number);
        }
        assert!(!known.is_beyond(one, 0));
        assert!(known.recent.len() + known.older.len() <= 2 * SUBJECTS_MAX);
    }
}
