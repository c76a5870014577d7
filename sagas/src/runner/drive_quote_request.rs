//! Driving one quote-request batch: its quotes are collected, and that is journaled.

use events::{QuoteRequestEvent, StreamId, quote_request::BatchSelection};
use journal::Recorded;

use super::{
    Engine,
    backoff::{Backoff, log_transient},
    drive::Stuck,
    spans,
    stream::At,
    wait::SELECTOR_PAUSE,
};
use crate::{ports::SelectionRequest, quote_request};

impl Engine {
    /// What the quote selector of a batch says, asked again until its time is over. A batch only has its quotes ordered by it,
    /// so a selector that is away, or says what does not count, is not waited for any longer.
    async fn select(&self, request: &SelectionRequest) -> Option<BatchSelection> {
        let (auction_id, selector, clock) = (&request.auction_id, &request.selector, &self.ports().clock);
        while clock.now() < request.answer_by {
            match self.ports().selector.choose(request).await {
                Ok(choice) => match quote_request::selected(request, choice) {
                    Ok(selection) => return Some(selection),
                    Err(refused) => {
                        tracing::warn!(auction_id, %selector, %refused, "the quote selector is not followed")
                    }
                },
                Err(fault) => tracing::info!(auction_id, %selector, %fault, "the quote selector does not answer"),
            }
            clock.sleep(SELECTOR_PAUSE).await;
        }
        None
    }

    /// Drives a batch until its quotes are collected; what comes then is the caller's to decide.
    pub(super) async fn drive_quote_request(&self, shard: Option<u16>, stream_id: &StreamId) -> Result<u64, Stuck> {
        let mut backoff = Backoff::default();
        loop {
            let commits = self.commits(stream_id).await?;
            let state = quote_request::fold(commits.iter().flat_map(Recorded::quote_request_events))?;
            let (Some(batch), Some(at)) = (state, At::end_of(&commits)) else { return Ok(0) };
            if at.is_outside(shard) {
                return Ok(0);
            }
            let request = match quote_request::next(&batch) {
                quote_request::Step::GatherBids(request) => request,
                quote_request::Step::Rest => return Ok(at.sequence()),
            };
            let gathered = match self.ports().auction.gather(&request).await {
                Ok(gathered) => gathered,
                Err(fault) => {
                    let say = |backoff: &Backoff| log_transient!(fault, backoff, %stream_id);
                    self.back_off_transient(&mut backoff, &fault, say).await;
                    continue;
                }
            };
            let mut collected = batch.collect(gathered, self.ports().clock.now());
            // Another gateway's clock may have been ahead of this one's.
            collected.auction.closed_at = collected.auction.closed_at.max(batch.opened.opened_at);
            if let Some(request) = batch.selection(&collected) {
                collected.selection = self.select(&request).await;
            }
            let opened_at = batch.opened.opened_at;
            let collected = QuoteRequestEvent::Collected(Box::new(collected));
            quote_request::evolve(Some(batch), &collected)?;
            if let Some(appended) = self.append(stream_id, at, vec![collected.into()]).await? {
                spans::collected(stream_id, opened_at, || self.ports().clock.now());
                if let Some(observer) = self.observer() {
                    for event in &appended.events {
                        if let Some(QuoteRequestEvent::Collected(collected)) = event.quote_request() {
                            observer.collected(&collected.auction);
                        }
                    }
                }
                return Ok(appended.at.sequence());
            }
        }
    }
}
