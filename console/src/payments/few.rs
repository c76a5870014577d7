//! The few: payments that are parked, overdue or in flight are few among all, and a walk from the newest one back would come upon
//! the old ones late. They are known by other means, and here in the order of lists.
//!
//! What is kept of them is bounded: where there are more than [`FEW_MAX`], they are not few, and the walk finds them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use chrono::Utc;
use moka::future::Cache;

use app::own_payments::{parked::Parked, query::Filter};
use events::{PaymentId, StreamId};
use projections::{Place, Projections, ShardState, Unavailable};
use sagas::ports::OpenStreams;

use super::query::ListQuery;
use crate::{error::Error, lane::Lane};

/// Most that are kept, of each kind; some hundred bytes each.
const FEW_MAX: usize = 10_000;
/// How long they are good for. To find what is overdue, everything that is open is read.
const FRESH: Duration = Duration::from_secs(5);

/// A kind of few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Parked,
    Overdue,
    InFlight,
}

impl Kind {
    /// The one in which everything is that the query wants: the smallest of them, where there are several.
    pub(super) fn of(query: &ListQuery) -> Option<Self> {
        let filter: &Filter = &query.filter;
        match () {
            () if filter.wants_parked() => Some(Self::Parked),
            () if filter.wants_overdue() => Some(Self::Overdue),
            () if query.in_flight == Some(true) => Some(Self::InFlight),
            () => None,
        }
    }
}

/// Where they stand in lists, newest first.
pub(super) type Places = Arc<Vec<Place>>;

/// The few of each kind.
pub(super) struct Few {
    projections: Projections,
    grace: Duration,
    /// `None` where there are too many.
    known: Cache<Kind, Option<Places>>,
}

impl Few {
    pub(super) fn new(projections: Projections, grace: Duration) -> Self {
        Self { projections, grace, known: Cache::builder().max_capacity(3).time_to_live(FRESH).build() }
    }

    /// Those of this kind; `None` where there are too many.
    ///
    /// # Errors
    /// [`Error::TooBusy`], or what of the read models cannot be read.
    pub(super) async fn of(&self, kind: Kind, parked: Option<&Parked>, lane: &Lane) -> Result<Option<Places>, Error> {
        let find = async {
            let ids = {
                // Everything that is open may be read for it.
                let _turn = lane.turn().await?;
                self.ids(kind, parked).await?
            };
            let Some(ids) = ids else { return Ok(None) };
            let projections = self.projections.clone();
            lane.run(move || {
                // What is not in the read models, or in a shard that is not live, is not in lists either.
                let found = ids.iter().filter_map(|id| projections.find(id).ok().flatten());
                let mut places: Vec<Place> = found.map(|found| Place::of(&found.view)).collect();
                places.sort_unstable_by(|one, other| other.cmp(one));
                Ok(Some(Arc::new(places)))
            })
            .await
        };
        self.known.try_get_with(kind, find).await.map_err(|error: Arc<Error>| (*error).clone())
    }

    /// Forgets which are parked, after a replay.
    pub(super) async fn forget_parked(&self) {
        self.known.invalidate(&Kind::Parked).await;
    }

    async fn ids(&self, kind: Kind, parked: Option<&Parked>) -> Result<Option<HashSet<PaymentId>>, Error> {
        let ids: HashSet<PaymentId> = match kind {
            Kind::Parked => parked.map(|parked| parked.payments.clone()).unwrap_or_default(),
            Kind::Overdue => {
                let found = self.projections.overdue(Utc::now(), self.grace).await;
                let found = found.map_err(|fault| Error::Unavailable(fault.to_string()))?;
                found.payments.into_iter().take(FEW_MAX + 1).map(|overdue| overdue.payment_id).collect()
            }
            Kind::InFlight => return self.in_flight().await,
        };
        Ok((ids.len() <= FEW_MAX).then_some(ids))
    }

    async fn in_flight(&self) -> Result<Option<HashSet<PaymentId>>, Error> {
        let mut ids = HashSet::new();
        for shard in 0..self.projections.shards() {
            // It waits for one that has not begun, of which nothing could be shown.
            if self.projections.status(shard).state != ShardState::Live {
                continue;
            }
            let open = self.projections.open_streams(shard, 0).await;
            let open = open.map_err(|fault| Error::Unavailable(fault.to_string()))?;
            ids.extend(open.iter().filter_map(StreamId::payment).cloned());
            if ids.len() > FEW_MAX {
                return Ok(None);
            }
        }
        Ok(Some(ids))
    }
}

/// The shard that keeps something from being read.
pub(super) fn shard_of(unavailable: &Unavailable) -> u16 {
    match unavailable {
        Unavailable::CatchingUp { shard } | Unavailable::Stopped { shard, .. } => *shard,
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use futures::FutureExt;
    use tempfile::TempDir;

    use super::*;

    /// What reads everything that is open takes one of the turns of the lane.
    #[tokio::test]
    async fn what_is_overdue_is_looked_for_in_a_turn() {
        let directory = TempDir::new().unwrap();
        let projections = Projections::open_searched(directory.path(), 8).unwrap();
        let (few, lane) = (Few::new(projections, Duration::ZERO), Lane::default());
        let mut turns: Vec<_> = iter::from_fn(|| lane.turn().now_or_never()).map(Result::unwrap).collect();
        turns.pop();
        let mut looking = Box::pin(few.of(Kind::Overdue, None, &lane));
        assert!((&mut looking).now_or_never().is_none());
        assert!(lane.turn().now_or_never().is_none());
        assert_eq!(looking.await.unwrap().map(|places| places.len()), Some(0));
    }
}
