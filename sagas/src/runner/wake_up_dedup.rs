//! Wake-up dedup: tells wake-ups that say nothing new, for commits that were in a stream already when it came to rest.

use std::collections::HashMap;

use events::StreamId;

/// Most streams that are remembered. Whatever is not is driven once more in vain.
const STREAMS_MAX: usize = 1024;

/// Streams of a shard that came to rest in this lease term.
///
/// A stream takes a commit only behind its last one. So a state with one commit in it has every commit of its stream
/// with a lower sequence in it, whoever appended them, and what is at rest stays so until a commit with a higher one
/// comes.
#[derive(Debug, Default)]
pub(super) struct WakeUpDedup {
    /// Sequence of the newest commit that each came to rest with.
    newest: HashMap<StreamId, u64>,
    /// Highest sequence that a wake-up came for.
    passed: u64,
}

impl WakeUpDedup {
    /// The stream came to rest with the commit at sequence `newest` as its last, as the journal itself said; 0 for
    /// none.
    pub(super) fn came_to_rest(&mut self, stream_id: StreamId, newest: u64) {
        if self.newest.len() >= STREAMS_MAX {
            // Wake-ups come in order, but for those that are repeated, so these have had theirs.
            let passed = self.passed;
            self.newest.retain(|_, newest| *newest > passed);
        }
        let has_room = self.newest.len() < STREAMS_MAX || self.newest.contains_key(&stream_id);
        if newest > 0 && has_room {
            self.newest.insert(stream_id, newest);
        }
    }

    /// Whether the wake-up for the commit at `sequence` of the stream says nothing new.
    pub(super) fn is_duplicate(&mut self, stream_id: &StreamId, sequence: u64) -> bool {
        self.passed = self.passed.max(sequence);
        self.newest.get(stream_id).is_some_and(|newest| sequence <= *newest)
    }
}

#[cfg(test)]
mod tests {
    use events::PaymentId;

    use super::*;

    fn stream(number: usize) -> StreamId {
        PaymentId::derive("at rest", &number.to_string()).into()
    }

    #[test]
    fn only_what_a_stream_came_to_rest_with_says_nothing_new() {
        let (one, other) = (stream(1), stream(2));
        let mut dedup = WakeUpDedup::default();
        assert!(!dedup.is_duplicate(&one, 7));
        dedup.came_to_rest(one.clone(), 7);
        // As often as it is repeated, and in any order.
        assert!(dedup.is_duplicate(&one, 7) && dedup.is_duplicate(&one, 3) && dedup.is_duplicate(&one, 7));
        // Somebody else's commit behind it, and another stream's in between.
        assert!(!dedup.is_duplicate(&one, 8));
        assert!(!dedup.is_duplicate(&other, 5));
        dedup.came_to_rest(one.clone(), 8);
        assert!(dedup.is_duplicate(&one, 8) && !dedup.is_duplicate(&one, 9));
    }

    #[test]
    fn it_stays_bounded_and_forgets_what_has_passed_first() {
        let mut dedup = WakeUpDedup::default();
        (0..STREAMS_MAX).for_each(|number| dedup.came_to_rest(stream(number), number as u64 + 1));
        // None of them has had its wake-up, so there is no room, but for news of one that has a place.
        dedup.came_to_rest(stream(STREAMS_MAX), 5000);
        assert!(!dedup.is_duplicate(&stream(STREAMS_MAX), 1));
        dedup.came_to_rest(stream(0), 5001);
        assert_eq!(dedup.newest.len(), STREAMS_MAX);
        assert!(dedup.is_duplicate(&stream(0), 4000));
        // All but the first have passed now.
        dedup.came_to_rest(stream(STREAMS_MAX), 5002);
        assert_eq!(dedup.newest.len(), 2);
        assert!(dedup.is_duplicate(&stream(0), 5001) && dedup.is_duplicate(&stream(STREAMS_MAX), 5002));
        assert!(!dedup.is_duplicate(&stream(1), 2));
    }
}
