//! A memory of what happened lately, of bounded size.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
};

/// Remembers so many things at most, and forgets the oldest first.
#[derive(Debug)]
pub(crate) struct Forgetful<T> {
    most: usize,
    known: HashSet<T>,
    order: VecDeque<T>,
}

impl<T: Clone + Eq + Hash> Forgetful<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, known: HashSet::new(), order: VecDeque::new() }
    }

    pub(crate) fn remember(&mut self, thing: T) {
        if self.known.insert(thing.clone()) {
            self.order.push_back(thing);
        }
        while self.order.len() > self.most {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    pub(crate) fn remembers(&self, thing: &T) -> bool {
        self.known.contains(thing)
    }
}
