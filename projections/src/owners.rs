//! The payments of an owner, in pages.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{
    fault::Fault,
    owner_index::{OwnedSlice, Place},
    read_model::Unavailable,
    service::Projections,
    store::Store,
    view::PaymentView,
};

/// Bounds of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageBounds {
    /// Most payments on it.
    pub payments_max: usize,
    /// Most payments that are looked at for it.
    pub looks_max: usize,
}

/// A page of an owner's payments, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedPage {
    /// Each with its shard.
    pub payments: Vec<(u16, PaymentView)>,
    /// Where the next page begins; `None` where nothing is left. There may be a next page behind an empty one, because
    /// what is looked at is bounded.
    pub next: Option<Place>,
}

impl Projections {
    /// The payments of an owner that `accept` takes, newest first. Blocks for as long as sled takes for the bounds.
    ///
    /// A commit that was acknowledged a moment ago may not be in it yet.
    ///
    /// # Errors
    /// [`Unavailable`] unless all shards are live: a list that lacks some would say that they do not exist.
    pub fn owned(
        &self,
        slice: &OwnedSlice,
        bounds: PageBounds,
        mut accept: impl FnMut(u16, &PaymentView) -> bool,
    ) -> Result<OwnedPage, Unavailable> {
        let shards = self.shards();
        let all_live = || (0..shards).try_for_each(|shard| self.model.live(shard).map(drop));
        all_live()?;
        let store = self.model.store();
        let read = page(&store, shards, slice, bounds, &mut accept).map_err(|(shard, fault)| {
            self.model.report_fault(shard, &fault);
            Unavailable::CatchingUp { shard }
        })?;
        // Again, because one may have been emptied in between.
        all_live()?;
        Ok(read)
    }
}

fn page(
    store: &Store,
    shards: u16,
    slice: &OwnedSlice,
    bounds: PageBounds,
    accept: &mut impl FnMut(u16, &PaymentView) -> bool,
) -> Result<OwnedPage, (u16, Fault)> {
    let (mut heads, mut keys) = (BinaryHeap::new(), Vec::new());
    for shard in 0..shards {
        let of = |fault| (shard, fault);
        let mut of_shard = store.owned_places(shard, slice).map_err(of)?;
        if let Some(place) = of_shard.next().transpose().map_err(of)? {
            heads.push(Head { place, shard });
        }
        keys.push(of_shard);
    }
    let (mut payments, mut looks, mut last) = (Vec::new(), 0, None);
    while let Some(Head { place, shard }) = heads.pop() {
        if payments.len() >= bounds.payments_max || looks >= bounds.looks_max {
            return Ok(OwnedPage { payments, next: last });
        }
        looks += 1;
        let of = |fault| (shard, fault);
        // One that cannot be read any more has lost its view since.
        if let Some(view) = store.payment(shard, &place.payment_id).map_err(of)?
            && view.belongs_to(&slice.owner)
            && accept(shard, &view)
        {
            payments.push((shard, view));
        }
        last = Some(place);
        if let Some(place) = keys[usize::from(shard)].next().transpose().map_err(of)? {
            heads.push(Head { place, shard });
        }
    }
    Ok(OwnedPage { payments, next: None })
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
