//! Read models of payments and quote-request batches, kept in sled and rebuilt from the streams at any time.
//!
//! [`PaymentView`] is what the HTTP responses of spec 2.6 and 2.11 show of a payment, folded from that payment's own
//! events and nothing else; [`QuoteRequestView`] is the same for spec 2.13. A settler's record adds up what events of any of them
//! say of it ([`Projections::settler_record`]). [`Projections`] keeps the view of every stream, one sled tree a shard, and follows the
//! journal as it grows. Nothing here is the truth: a directory that is missing, damaged, or not made from the streams at hand is
//! built again from the first commit, and while that goes on [`Projections::get`] says so, so that the caller answers
//! from the journal with [`PaymentView::fold`].
//!
//! ```no_run
//! # async fn example(journal: std::sync::Arc<dyn journal::Journal>) -> Result<(), Box<dyn std::error::Error>> {
//! use projections::Projections;
//! use tokio_util::sync::CancellationToken;
//!
//! let projections = Projections::open("data/projections".as_ref(), journal.shards())?;
//! let shutdown = CancellationToken::new();
//! let follower = tokio::spawn({
//!     let (projections, shutdown) = (projections.clone(), shutdown.clone());
//!     async move { projections.run(journal, shutdown).await }
//! });
//! // … serve from `projections` …
//! shutdown.cancel();
//! follower.await??;
//! # Ok(())
//! # }
//! ```

mod alarm;
mod entry;
mod fault;
mod follower;
mod generations;
mod overdue;
mod owner_index;
mod owners;
mod pages;
mod payment_list;
mod place;
mod prefetch;
mod quote_request;
mod read_model;
mod rebuild;
mod rebuild_status;
mod record_deltas;
mod search;
mod search_index;
mod service;
mod settler_records;
mod shards;
mod store;
mod time_index;
mod unreadable;
mod view;
mod waiters;

pub use alarm::JournalAlarm;
pub use generations::were_made;
pub use overdue::{OpenLeg, Overdue, OverdueList, OverdueStage, overdue};
pub use owner_index::OwnedSlice;
pub use owners::OwnedPage;
pub use pages::PageBounds;
pub use payment_list::{ListPage, ListSlice};
pub use place::{Place, first_millisecond};
pub use quote_request::{BatchAward, OfferedQuote, QuoteRequestStatus, QuoteRequestView};
pub use read_model::{OpenError, Unavailable};
pub use rebuild::Rebuild;
pub use rebuild_status::{RebuildError, RebuildPhase, RebuildProgress, RebuildStatus, Verdict};
pub use search::SEARCH_LOOKS_MAX;
pub use search_index::SEARCH_CHARS_MIN;
pub use service::{Located, Projections, RunError};
pub use settler_records::{RecentRecords, SETTLERS_PAGE_MAX, SettlerPage};
pub use shards::{ShardState, ShardStatus};
pub use view::{
    Applied, AwardProgress, AwardedQuote, Confirmation, DeclineCount, LapsedQuote, PaymentStatus, PaymentView,
    RefundOwed, Reopened, ShownAddress, Transaction, Windows,
};
