//! Places at the same time, counted by caller: a bulkhead.
//!
//! Only who has a place is remembered, so the memory is bounded by the places that there are for all together.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

/// Places of all callers, so many for each.
#[derive(Debug)]
pub struct Places<K: Hash + Eq + Copy> {
    most: usize,
    taken: Mutex<HashMap<K, usize>>,
}

/// A place, until it is dropped.
pub struct Place<K: Hash + Eq + Copy> {
    places: Arc<Places<K>>,
    key: K,
}

impl<K: Hash + Eq + Copy> Places<K> {
    /// So many places for each caller.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place for `key`; `None` where it has as many as it may.
    pub fn take(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.get(&key).copied().unwrap_or_default();
        if count >= self.most {
            return None;
        }
        taken.insert(key, count + 1);
        Some(Place { places: Arc::clone(self), key })
    }
}

impl<K: Hash + Eq + Copy> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut count) = taken.entry(self.key) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

impl<K: Hash + Eq + Copy + fmt::Debug> fmt::Debug for Place<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.key).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_as_many_and_nobody_is_remembered_who_has_none() {
        let places = Places::new(2);
        let (one, two) = (places.take("a").unwrap(), places.take("a").unwrap());
        assert!(places.take("a").is_none());
        let other = places.take("b").unwrap();
        drop(one);
        let one = places.take("a").unwrap();
        assert!(places.take("a").is_none());
        drop((one, two, other));
        assert!(places.taken.lock().unwrap().is_empty());
    }
}
