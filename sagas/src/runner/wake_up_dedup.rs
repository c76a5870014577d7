//! Wake-ups that say nothing new: those for commits that were in a stream already when it came to rest.

use std::collections::HashMap;

use events::StreamId;

/// Most streams that are remembered. Whatever is not is driven once more in vain.
const STREAMS_MAX: usize = 1024;

/// Streams of a shard that came to rest in this tenure.
///
/// A stream takes a commit only behind its last one. So a state with one commit in it has every commit of its stream
/// with a lower sequence in it, whoever appended them, and what is at rest stays so until a commit with a higher one
/// comes.
#[derive(Debug, Default)]
pub(super) struct Rested {
    /// Sequence of the newest commit that each came to rest with.
    newest: HashMap<StreamId, u64>,
    /// Highest sequence that a wake-up came for.
    passed: u64,
}

impl Rested {
    /// The stream came to rest with the commit at sequence `newest` as its last, as the journal itself said; 0 for
    /// none.
    pub(super) fn insert(&mut self, stream_id: StreamId, newest: u64) {
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
    pub(super) fn has(&mut self, stream_id: &StreamId, sequence: u64) -> bool {
        self.passed = self.passed.max(sequence);
        self.newest.get(stream_id).is_some_and(|newest| sequence <= *newest)
    }
}

#[cfg(test)]
mod tests {
    use events::PaymentId;

    use super::*;

    fn stream(number: usize) -> StreamId {
        PaymentId::derive("rested", &number.to_string()).into()
    }

    #[test]
    fn only_what_a_stream_came_to_rest_with_says_nothing_new() {
        let (one, other) = (stream(1), stream(2));
        let mut rested = Rested::default();
        assert!(!rested.has(&one, 7));
        rested.insert(one.clone(), 7);
        // As often as it is repeated, and in any order.
        assert!(rested.has(&one, 7) && rested.has(&one, 3) && rested.has(&one, 7));
        // Somebody else's commit behind it, and another stream's in between.
        assert!(!rested.has(&one, 8));
        assert!(!rested.has(&other, 5));
        rested.insert(one.clone(), 8);
        assert!(rested.has(&one, 8) && !rested.has(&one, 9));
    }

    #[test]
    fn it_stays_bounded_and_forgets_what_has_passed_first() {
        let mut rested = Rested::default();
        (0..STREAMS_MAX).for_each(|number| rested.insert(stream(number), number as u64 + 1));
        // None of them has had its wake-up, so there is no room, but for news of one that has a place.
        rested.insert(stream(STREAMS_MAX), 5000);
        assert!(!rested.has(&stream(STREAMS_MAX), 1));
        rested.insert(stream(0), 5001);
        assert_eq!(rested.newest.len(), STREAMS_MAX);
        assert!(rested.has(&stream(0), 4000));
        // All but the first have passed now.
        rested.insert(stream(STREAMS_MAX), 5002);
        assert_eq!(rested.newest.len(), 2);
        assert!(rested.has(&stream(0), 5001) && rested.has(&stream(STREAMS_MAX), 5002));
        assert!(!rested.has(&stream(1), 2));
    }
}
