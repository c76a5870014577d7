//! A bounded memory: what was learnt most recently, the oldest forgotten first.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// A map of bounded size. What was inserted first is forgotten first.
#[derive(Debug)]
pub(crate) struct RecentMap<K, V> {
    entries_max: usize,
    entries: HashMap<K, V>,
    /// The keys, oldest first.
    order: VecDeque<K>,
}

/// A set of bounded size.
pub(crate) type RecentSet<K> = RecentMap<K, ()>;

impl<K: Clone + Eq + Hash, V> RecentMap<K, V> {
    /// An empty map of at most `entries_max` entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries_max, entries: HashMap::new(), order: VecDeque::new() }
    }

    /// Inserts an entry, in the place of the earlier one under its key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > self.entries_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_forgotten_first_and_a_newer_value_stays_in_its_place() {
        let mut recent = RecentMap::new(2);
        recent.insert("a", 1);
        recent.insert("b", 2);
        recent.insert("a", 3);
        assert_eq!((recent.get(&"a"), recent.get(&"b")), (Some(&3), Some(&2)));
        recent.insert("c", 4);
        assert!(!recent.contains(&"a") && recent.contains(&"b") && recent.contains(&"c"));
    }
}
