//! All payments, in pages.

use std::collections::BTreeSet;

use events::time::Timestamp;

use crate::{
    fault::Fault,
    pages::{self, PageBounds},
    place::{self, Place},
    read_model::Unavailable,
    service::Projections,
    time_index::TIME_PREFIX,
    view::PaymentView,
};

/// Which payments of all are looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListSlice {
    /// Those before this one, which is where an earlier page ended.
    pub before: Option<Place>,
    /// Those submitted then or later.
    pub from: Option<Timestamp>,
    /// Those submitted earlier.
    pub until: Option<Timestamp>,
}

/// A page of payments of any owner, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// Each with its shard.
    pub payments: Vec<(u16, PaymentView)>,
    /// Where the next page begins; `None` where nothing is left. There may be a next page behind an empty one, because
    /// what is looked at is bounded.
    pub next: Option<Place>,
    /// Entries that were looked at.
    pub looked_at: usize,
    /// Shards whose read model is not live, in order: their payments may be missing or shown as they were.
    pub uncertain: Vec<u16>,
}

impl Projections {
    /// The payments of all owners that `accept` takes, newest first. Blocks for as long as sled takes for the bounds.
    ///
    /// A commit that was acknowledged a moment ago may not be in it yet, and of shards that are not live what is stored
    /// is shown: [`ListPage::uncertain`] names them, and those that could not be read.
    ///
    /// # Errors
    /// [`Unavailable`] when no shard could be read.
    pub fn listed(
        &self,
        slice: &ListSlice,
        bounds: PageBounds,
        accept: impl FnMut(u16, &PaymentView) -> bool,
    ) -> Result<ListPage, Unavailable> {
        let uncertain = Uncertain::before(self);
        let keys = place::range(&[TIME_PREFIX], slice.before.as_ref(), slice.from, slice.until);
        let page = pages::page(&self.model.store(), uncertain.shards, &keys, bounds, accept);
        let uncertain = uncertain.after(self, &page.faults)?;
        Ok(ListPage { payments: page.payments, next: page.next, looked_at: page.looked_at, uncertain })
    }
}

impl Projections {
    /// Shards whose read model is not live, in order: their payments may be missing or shown as they were.
    pub fn uncertain_shards(&self) -> Vec<u16> {
        (0..self.shards()).filter(|shard| self.model.live(*shard).is_err()).collect()
    }
}

/// Shards that are not live before or after they are read.
pub(crate) struct Uncertain {
    /// The number of all.
    pub(crate) shards: u16,
    uncertain: BTreeSet<u16>,
}

impl Uncertain {
    pub(crate) fn before(projections: &Projections) -> Self {
        let mut uncertain = Self { shards: projections.shards(), uncertain: BTreeSet::new() };
        uncertain.look(projections);
        uncertain
    }

    /// Looks again, as one may have been emptied in between, and reports those that could not be read.
    pub(crate) fn after(mut self, projections: &Projections, faults: &[(u16, Fault)]) -> Result<Vec<u16>, Unavailable> {
        for (shard, fault) in faults {
            projections.model.report_fault(*shard, fault);
            self.uncertain.insert(*shard);
        }
        let faulted: BTreeSet<u16> = faults.iter().map(|(shard, _)| *shard).collect();
        if let Some(shard) = faulted.first().filter(|_| faulted.len() == usize::from(self.shards)) {
            return Err(Unavailable::CatchingUp { shard: *shard });
        }
        self.look(projections);
        Ok(self.uncertain.into_iter().collect())
    }

    fn look(&mut self, projections: &Projections) {
        self.uncertain.extend(projections.uncertain_shards());
    }
}
