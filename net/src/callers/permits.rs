//! Permits: how much of something each caller may have at the same time.
//!
//! An address has so many, and the /48 that an IPv6 address belongs to a few times as many: who is given a /48 has 65,536
//! addresses. Only who holds a permit is remembered, so the memory is bounded by what there is for all together.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use super::AddressKey;

/// The permits of all callers, so many for each address and each site. What is counted may come by the piece or by the
/// KiB.
#[derive(Debug)]
pub struct Permits {
    addresses: Arc<Counts<AddressKey>>,
    sites: Arc<Counts<AddressKey>>,
}

/// What is taken of them, until it is dropped.
#[derive(Debug)]
pub struct Permit {
    of_address: Count<AddressKey>,
    of_site: Option<Count<AddressKey>>,
}

impl Permits {
    /// So many for each address, and for each /48.
    pub fn new(of_address: usize, of_site: usize) -> Self {
        Self { addresses: Counts::new(of_address), sites: Counts::new(of_site) }
    }

    /// A permit for `count` pieces or KiB for `address`; `None` where it, or its site, may not have as many more.
    pub(super) fn take(&self, address: AddressKey, count: usize) -> Option<Permit> {
        let of_address = self.addresses.take(address, count)?;
        let of_site = match address.site() {
            Some(site) => Some(self.sites.take(site, count)?),
            None => None,
        };
        Some(Permit { of_address, of_site })
    }
}

impl Permit {
    /// Holds `more`, which is the same caller's, together with this.
    pub fn merge(&mut self, more: Self) {
        self.of_address.merge(more.of_address);
        if let Some((held, more)) = self.of_site.as_mut().zip(more.of_site) {
            held.merge(more);
        }
    }
}

/// How many each has, and how many at most.
#[derive(Debug)]
struct Counts<K: Hash + Eq + Copy> {
    most: usize,
    taken: Mutex<HashMap<K, usize>>,
}

/// What one has of them, until it is dropped.
#[derive(Debug)]
struct Count<K: Hash + Eq + Copy> {
    counts: Arc<Counts<K>>,
    key: K,
    count: usize,
}

impl<K: Hash + Eq + Copy> Counts<K> {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    fn take(self: &Arc<Self>, key: K, count: usize) -> Option<Count<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let held = taken.get(&key).copied().unwrap_or_default();
        let together = held.checked_add(count).filter(|together| *together <= self.most)?;
        taken.insert(key, together);
        Some(Count { counts: Arc::clone(self), key, count })
    }
}

impl<K: Hash + Eq + Copy> Count<K> {
    fn merge(&mut self, mut more: Self) {
        self.count += std::mem::take(&mut more.count);
    }
}

impl<K: Hash + Eq + Copy> Drop for Count<K> {
    fn drop(&mut self) {
        let mut taken = self.counts.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut held) = taken.entry(self.key) {
            *held.get_mut() -= self.count;
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: &str) -> AddressKey {
        AddressKey::of(address.parse().unwrap())
    }

    #[test]
    fn everybody_has_as_many_and_nobody_is_remembered_who_has_none() {
        let permits = Permits::new(3, 4);
        let (address, other) = (key("198.51.100.1"), key("198.51.100.2"));
        let (mut one, two) = (permits.take(address, 1).unwrap(), permits.take(address, 2).unwrap());
        assert!(permits.take(address, 1).is_none());
        let of_other = permits.take(other, 3).unwrap();
        drop(two);
        assert!(permits.take(address, 3).is_none());
        one.merge(permits.take(address, 2).unwrap());
        assert!(permits.take(address, 1).is_none());
        drop((one, of_other));
        assert!(permits.addresses.taken.lock().unwrap().is_empty());
    }

    #[test]
    fn the_addresses_of_one_site_share_its_permits() {
        let permits = Permits::new(3, 4);
        let (one, two, elsewhere) = (key("2001:db8:1:1::1"), key("2001:db8:1:2::1"), key("2001:db8:2:1::1"));
        let mut held = permits.take(one, 3).unwrap();
        let second = permits.take(two, 1).unwrap();
        // What the site refuses, the address has not taken.
        assert!(permits.take(two, 1).is_none());
        let _of_others = (permits.take(elsewhere, 3).unwrap(), permits.take(key("198.51.100.1"), 3).unwrap());
        drop(second);
        held.merge(permits.take(one, 0).unwrap());
        let two = permits.take(two, 1).unwrap();
        drop((held, two));
        assert_eq!(permits.sites.taken.lock().unwrap().len(), 1);
    }
}
