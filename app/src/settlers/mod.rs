//! Settlers' records, as anybody may read them: auctions, awards and how these ended.

pub mod body;
pub mod query;

use std::time::Duration;

use async_trait::async_trait;

use events::Did;
use net::callers::price;
use projections::{Projections, SETTLERS_PAGE_MAX, SettlerPage, Unavailable};
use sagas::settler_record::SettlerRecord;

use crate::{
    bulkhead::{Bulkhead, Permit},
    error::{Code, Error},
};

/// Most settlers on a page.
pub const PAGE_MAX: usize = SETTLERS_PAGE_MAX;
/// How many there are on one where nobody says.
pub const PAGE_DEFAULT: usize = 50;
/// Settlers that are read for one unit of the budget for reads: each has a part in every shard.
const SETTLERS_PER_UNIT: usize = 10;
const _: () = assert!(
    PAGE_MAX.div_ceil(SETTLERS_PER_UNIT) <= price::PAGE_MAX as usize,
    "a caller's least budget pays for any page"
);
/// Reads at a time, how many may wait for their turn, and for how long.
const READS_MAX: usize = 2;
const WAITING_MAX: usize = 32;
const WAIT_MAX: Duration = Duration::from_secs(2);
/// What is counted of it stands under this name.
const LANE: &str = "settlers";

/// What a page of so many settlers costs of the budget for reads, besides what any read does.
pub fn price(settlers_max: usize) -> u32 {
    u32::try_from(settlers_max.div_ceil(SETTLERS_PER_UNIT)).unwrap_or(u32::MAX)
}

/// The records of settlers, as the read model has them. What happened in the last moment may be missing.
#[async_trait]
pub trait SettlerReads: Send + Sync {
    /// The first settlers behind `after`, in the order of their DIDs.
    ///
    /// # Errors
    /// 503 while the read model lacks something, or as many are read as may be.
    async fn page(&self, after: Option<Did>, settlers_max: usize) -> Result<SettlerPage, Error>;

    /// The record of a settler; `None` where it was never asked.
    ///
    /// # Errors
    /// As [`SettlerReads::page`].
    async fn record(&self, settler: Did) -> Result<Option<SettlerRecord>, Error>;
}

/// [`SettlerReads`] of the read model, behind a bulkhead.
pub struct RecordReads {
    projections: Projections,
    bulkhead: Bulkhead,
}

impl RecordReads {
    /// Those of this read model.
    pub fn new(projections: Projections) -> Self {
        Self { projections, bulkhead: Bulkhead::new(LANE, READS_MAX, WAITING_MAX, WAIT_MAX) }
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Projections) -> Result<T, Unavailable> + Send + 'static,
    ) -> Result<T, Error> {
        let permit: Permit = self.bulkhead.permit().await.ok_or(Code::SERVICE_UNAVAILABLE)?;
        let projections = self.projections.clone();
        let read = tokio::task::spawn_blocking(move || {
            // Held by the work, which goes on when nobody waits for it any more.
            let _permit = permit;
            read(&projections)
        });
        match read.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(unavailable)) => {
                tracing::warn!(%unavailable, "settlers' records cannot be read for now");
                Err(Code::SERVICE_UNAVAILABLE.into())
            }
            Err(error) => {
                tracing::error!(%error, "settlers' records could not be read");
                Err(Code::INTERNAL_ERROR.into())
            }
        }
    }
}

#[async_trait]
impl SettlerReads for RecordReads {
    async fn page(&self, after: Option<Did>, settlers_max: usize) -> Result<SettlerPage, Error> {
        self.read(move |projections| projections.settler_records(after.as_ref(), settlers_max)).await
    }

    async fn record(&self, settler: Did) -> Result<Option<SettlerRecord>, Error> {
        self.read(move |projections| projections.settler_record(&settler)).await
    }
}
