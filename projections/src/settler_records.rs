//! Settlers' records, of all shards.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use events::Did;
use sagas::{ports::SettlerRecords, settler_record::SettlerRecord};

use crate::{fault::Fault, read_model::Unavailable, service::Projections, store::Store};

/// Most settlers on a page of records.
pub const SETTLERS_PAGE_MAX: usize = 200;

/// A page of settlers, in the order of their DIDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettlerPage {
    /// Each with its record.
    pub settlers: Vec<(Did, SettlerRecord)>,
    /// Behind which the next page begins; `None` where nothing is left.
    pub next: Option<Did>,
}

impl Projections {
    /// The record of a settler over all shards; `None` where it was never asked. Reads sled inline, some entries a shard.
    ///
    /// A commit that was acknowledged a moment ago may not be in it yet.
    ///
    /// # Errors
    /// [`Unavailable`] unless all shards are live: a record that lacks some would be another settler's.
    pub fn settler_record(&self, settler: &Did) -> Result<Option<SettlerRecord>, Unavailable> {
        let parts = self.of_all_shards(|store, shard| store.settler_record(shard, settler))?;
        Ok(parts.into_iter().flatten().reduce(|mut record, part| {
            record.merge(&part);
            record
        }))
    }

    /// The first settlers behind `after`, up to `most` and [`SETTLERS_PAGE_MAX`]. Blocks for as long as sled takes for as many
    /// records a shard.
    ///
    /// # Errors
    /// As [`Projections::settler_record`].
    pub fn settler_records(&self, after: Option<&Did>, most: usize) -> Result<SettlerPage, Unavailable> {
        let most = most.clamp(1, SETTLERS_PAGE_MAX);
        // One more, which says whether there is a next page. Whoever is among the first of all is among the first of each
        // shard that knows it.
        let parts = self.of_all_shards(|store, shard| store.settler_records(shard, after, most + 1))?;
        let mut records = BTreeMap::<Did, SettlerRecord>::new();
        for (settler, part) in parts.into_iter().flatten() {
            records.entry(settler).or_default().merge(&part);
        }
        let is_more = records.len() > most;
        let settlers: Vec<_> = records.into_iter().take(most).collect();
        let next = settlers.last().filter(|_| is_more).map(|(settler, _)| settler.clone());
        Ok(SettlerPage { settlers, next })
    }

    /// What `read` finds in each shard.
    fn of_all_shards<T>(&self, read: impl Fn(&Store, u16) -> Result<T, Fault>) -> Result<Vec<T>, Unavailable> {
        let shards = self.shards();
        let all_live = || (0..shards).try_for_each(|shard| self.model.live(shard).map(drop));
        all_live()?;
        let store = self.model.store();
        let of_shard = |shard| {
            read(&store, shard).map_err(|fault| {
                self.model.report_fault(shard, &fault);
                Unavailable::CatchingUp { shard }
            })
        };
        let parts = (0..shards).map(of_shard).collect::<Result<Vec<_>, _>>()?;
        // Again, because one may have been emptied in between.
        all_live()?;
        Ok(parts)
    }
}

/// How old what is said of a settler may be.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Settlers whose records are kept. They are far fewer; who is beyond is read each time.
const KEPT_MAX: usize = 10_000;

/// [`SettlerRecords`] of the read model, kept for a second so that each request for quotes may ask for each settler.
///
/// What it says is up to [`AGE_MAX`] old, beside what the read model itself lags: an award that was missed just now counts for
/// requests from the next second on, and a pause that is over ends by the time of asking, not later. Every gateway has its
/// own, so for that long two may judge one settler differently. Nothing rests on their agreement: who is passed over is in the
/// event that closes the auction. While a shard is not live there is no record, and nobody is passed over.
#[derive(Debug)]
pub struct RecentRecords {
    projections: Projections,
    kept: Mutex<HashMap<Did, Kept>>,
}

#[derive(Debug, Clone)]
struct Kept {
    read_at: Instant,
    record: Option<Arc<SettlerRecord>>,
}

impl RecentRecords {
    /// Those of this read model.
    pub fn new(projections: Projections) -> Self {
        Self { projections, kept: Mutex::default() }
    }

    /// The record of a settler at `now`, which is later than in earlier calls.
    fn at(&self, settler: &Did, now: Instant) -> Option<Arc<SettlerRecord>> {
        let is_recent = |kept: &Kept| now.saturating_duration_since(kept.read_at) < AGE_MAX;
        if let Some(kept) = self.lock().get(settler).filter(|kept| is_recent(kept)) {
            return kept.record.clone();
        }
        // Not held meanwhile: two that read the same hurt nobody.
        let record = self.projections.settler_record(settler).ok().flatten().map(Arc::new);
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, kept| is_recent(kept));
        }
        if kept.len() < KEPT_MAX {
            kept.insert(settler.clone(), Kept { read_at: now, record: record.clone() });
        }
        record
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Did, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SettlerRecords for RecentRecords {
    fn record(&self, settler: &Did) -> Option<Arc<SettlerRecord>> {
        self.at(settler, Instant::now())
    }
}
