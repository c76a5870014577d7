//! Segments that were read or written lately, within a number of bytes: what is stored now is read soon.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::segment::Segment;

/// The segments by their message, the oldest of which go first.
pub(super) struct Cache {
    segments: HashMap<u64, Arc<Segment>>,
    order: VecDeque<u64>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { segments: HashMap::new(), order: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub(super) fn get(&self, message: u64) -> Option<Arc<Segment>> {
        self.segments.get(&message).cloned()
    }

    pub(super) fn put(&mut self, segment: Arc<Segment>) {
        let (message, bytes) = (segment.message, segment.bytes());
        if bytes > self.bytes_max || self.segments.insert(message, segment).is_some() {
            return;
        }
        self.order.push_back(message);
        self.bytes += bytes;
        while self.bytes > self.bytes_max {
            let Some(oldest) = self.order.pop_front().and_then(|oldest| self.segments.remove(&oldest)) else { return };
            self.bytes -= oldest.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use journal::{
        Position,
        conformance::{commit, fresh},
        envelope::EncodedCommit,
    };

    use super::*;
    use crate::log::segment::{End, Filling};

    #[test]
    fn it_is_bounded_by_bytes() {
        let segment = |message: u64| {
            let mut filling = Filling::default();
            filling.push(0, &EncodedCommit::new(&commit(&fresh(), Position::START, "text"), 0).unwrap());
            Arc::new(filling.seal(End { message: message - 1, commit: 40 }))
        };
        let mut cache = Cache::new(3 * segment(1).bytes());
        for message in 1..=10 {
            cache.put(segment(message));
            cache.put(segment(message));
        }
        assert!(cache.bytes <= cache.bytes_max && cache.get(10).is_some() && cache.get(1).is_none());
        assert_eq!(cache.order.len(), cache.segments.len());
    }
}
