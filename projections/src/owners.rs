//! The payments of an owner, in pages.

use crate::{
    owner_index::OwnedSlice,
    pages::{self, PageBounds},
    place::Place,
    read_model::Unavailable,
    service::Projections,
    view::PaymentView,
};

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
        let is_taken = |shard, view: &PaymentView| view.belongs_to(&slice.owner) && accept(shard, view);
        let page = pages::page(&self.model.store(), shards, &slice.keys(), bounds, is_taken);
        for (shard, fault) in &page.faults {
            self.model.report_fault(*shard, fault);
        }
        if let Some((shard, _)) = page.faults.first() {
            return Err(Unavailable::CatchingUp { shard: *shard });
        }
        // Again, because one may have been emptied in between.
        all_live()?;
        Ok(OwnedPage { payments: page.payments, next: page.next })
    }
}
