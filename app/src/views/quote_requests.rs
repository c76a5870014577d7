//! Quote-requests as the routes see them: the read model, the journal behind it, and what settlers have answered so far.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use chrono::Utc;

use ::auction::Progress;
use events::QuoteRequestId;
use journal::{ReadError, Recorded, StreamStore};
use projections::{DeclineCount, QuoteRequestView, Unavailable};
use sagas::{
    auction,
    ports::{Answer, RequestForQuotes},
    quote_request,
};

use super::payments::unreadable;

/// Quote-requests as they are shown.
#[async_trait]
pub trait QuoteRequests: Send + Sync {
    /// The view of a batch, as new as any answer that was given before. `None` does not prove that there is no such batch: the
    /// journal does.
    ///
    /// # Errors
    /// [`Unavailable`] when the journal has to be asked.
    async fn view(&self, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Unavailable>;

    /// How many batches collect quotes, as far as is known here.
    fn collecting(&self) -> usize;

    /// Whether a batch collects quotes; `None` where it is not known here, or not yet.
    fn is_collecting(&self, id: &QuoteRequestId) -> Option<bool>;

    /// Waits until the batch's view is beyond `seen_version`, at most for `wait_max`, and returns it.
    async fn changed(&self, id: &QuoteRequestId, seen_version: u64, wait_max: Duration) -> Option<QuoteRequestView>;
}

/// The view of a batch as the journal has it; `None` proves that there is no such batch.
pub async fn from_journal(
    journal: &dyn StreamStore,
    id: &QuoteRequestId,
) -> Result<Option<QuoteRequestView>, ReadError> {
    let commits = journal.load(&id.into()).await?;
    let Some(first) = commits.first() else { return Ok(None) };
    QuoteRequestView::fold(&commits).map(Some).ok_or_else(|| unreadable(first))
}

/// Auction statistics: who was asked for quotes and who declined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuctionStatistics {
    /// Settlers that were asked; absent while unknown.
    pub requested_count: Option<u64>,
    /// Declines by reason; absent while unknown.
    pub declines: Option<Vec<DeclineCount>>,
}

/// The statistics of a batch whose quotes are being collected, as they are for now. What cannot be read for now is left out, since
/// a provisional figure is worth no error.
pub(super) async fn of_open_batch(
    journal: &dyn StreamStore,
    auctions: &dyn Progress,
    view: &QuoteRequestView,
) -> AuctionStatistics {
    let commits = journal.load(&(&view.quote_request_id).into()).await.unwrap_or_default();
    let batch = quote_request::fold(commits.iter().flat_map(Recorded::quote_request_events)).ok().flatten();
    let Some(batch) = batch else { return AuctionStatistics::default() };
    so_far(auctions, &auction::request_for_batch(&batch.opened)).await
}

/// The statistics of an open auction as it is for now; nothing where they cannot be read.
pub(super) async fn so_far(auctions: &dyn Progress, request: &RequestForQuotes) -> AuctionStatistics {
    match auctions.so_far(request).await {
        Ok(mut gathered) => {
            // Quotes are not counted, and to check one costs far more than a read may.
            for bid in gathered.bids.iter_mut().filter(|bid| matches!(bid.answer, Answer::Quote(_))) {
                bid.answer = Answer::Malformed(String::new());
            }
            let sifted = auction::sift(request, None, gathered, Utc::now());
            let asked = sifted.addressed.len() as u64;
            let mut counts = BTreeMap::<String, u64>::new();
            for decline in sifted.declines {
                *counts.entry(decline.reason).or_default() += 1;
            }
            let declines = counts.into_iter().map(|(reason, count)| DeclineCount { reason, count });
            AuctionStatistics { requested_count: (asked > 0).then_some(asked), declines: Some(declines.collect()) }
        }
        Err(error) => {
            tracing::debug!(auction_id = request.auction_id, %error, "the statistics of an auction are unknown for now");
            AuctionStatistics::default()
        }
    }
}
