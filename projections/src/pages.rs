//! Pages of payments out of all shards, newest first.

use std::{cmp::Ordering, collections::BinaryHeap, ops::Range};

use crate::{fault::Fault, place::Place, store::Store, view::PaymentView};

/// Bounds of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageBounds {
    /// Most payments on it.
    pub payments_max: usize,
    /// Most payments that are looked at for it.
    pub looks_max: usize,
}

/// A page, as far as the shards could be read.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Each with its shard, newest first.
    pub(crate) payments: Vec<(u16, PaymentView)>,
    /// Where the next page begins; `None` where nothing is left.
    pub(crate) next: Option<Place>,
    /// Payments that were looked at.
    pub(crate) looked_at: usize,
    /// Shards of which no more could be read.
    pub(crate) faults: Vec<(u16, Fault)>,
}

/// The payments with a key in this range of an index, in any of the first `shards` shards, that `accept` takes.
pub(crate) fn page(
    store: &Store,
    shards: u16,
    keys: &Range<Vec<u8>>,
    bounds: PageBounds,
    mut accept: impl FnMut(u16, &PaymentView) -> bool,
) -> Page {
    let mut newest = Newest::over((0..shards).map(|shard| store.places(shard, keys.clone())));
    let (mut page, mut last) = (Page::default(), None);
    while let Some(Head { place, shard }) = newest.pop() {
        if page.payments.len() >= bounds.payments_max || page.looked_at >= bounds.looks_max {
            page.next = last;
            break;
        }
        page.looked_at += 1;
        match store.payment(shard, &place.payment_id) {
            Ok(Some(view)) if Place::of(&view) == place && accept(shard, &view) => page.payments.push((shard, view)),
            // One that cannot be read any more has lost its view since.
            Ok(_) => {}
            Err(fault) => {
                page.faults.push((shard, fault));
                continue;
            }
        }
        last = Some(place);
        newest.advance(shard);
    }
    page.faults.append(&mut newest.faults);
    page
}

/// Places of several shards, each of which has its own from the newest on.
struct Newest<I> {
    /// The newest payment of each shard that was not looked at yet.
    heads: BinaryHeap<Head>,
    /// What is behind them.
    behind: Vec<Option<I>>,
    faults: Vec<(u16, Fault)>,
}

impl<I: Iterator<Item = Result<Place, Fault>>> Newest<I> {
    fn over(shards: impl Iterator<Item = Result<I, Fault>>) -> Self {
        let mut newest = Self { heads: BinaryHeap::new(), behind: Vec::new(), faults: Vec::new() };
        for (shard, places) in (0..).zip(shards) {
            let places = places.map_err(|fault| newest.faults.push((shard, fault))).ok();
            newest.behind.push(places);
            newest.advance(shard);
        }
        newest
    }

    /// Takes the newest payment of all.
    fn pop(&mut self) -> Option<Head> {
        self.heads.pop()
    }

    /// Goes on with the shard whose payment was taken.
    fn advance(&mut self, shard: u16) {
        let places = self.behind.get_mut(usize::from(shard)).and_then(Option::as_mut);
        match places.and_then(Iterator::next) {
            Some(Ok(place)) => self.heads.push(Head { place, shard }),
            Some(Err(fault)) => self.faults.push((shard, fault)),
            None => {}
        }
    }
}

/// The newest payment of a shard that was not looked at yet.
#[derive(PartialEq, Eq)]
struct Head {
    place: Place,
    shard: u16,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.place, self.shard).cmp(&(&other.place, other.shard))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
