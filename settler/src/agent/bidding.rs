//! Requests for quotes and their answers, and the ends of auctions that this settler did not win.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use chrono::Utc;
use futures::StreamExt;
use tokio::{sync::Semaphore, task::JoinSet};
use tracing::{Instrument, Span, field::Empty, info_span};

use events::Hash32;
use protocol::{AuctionOver, Bid, Rfq, bid_subject, over_subjects, rfq_subjects, split_subject};

use super::{ENDS_MAX, RETRY_PAUSE};
use crate::{
    agent_metrics::{Answered, QuoteMetrics},
    inventory::Inventory,
    nats::{Nats, traceparent},
    quoting::{Decline, Quoter},
    recent::RecentSet,
};

/// Bulkhead for requests of signed payments: most that are answered concurrently. More are dropped, and the gateway asks
/// again.
const ANSWERING_SIGNED_MAX: usize = 64;
/// Bulkhead for unsigned requests, which take no capacity from the signed ones.
const ANSWERING_UNSIGNED_MAX: usize = 32;
/// Attempts of an answer before the settler declines or gives up, and the pause between them.
const ANSWER_ATTEMPTS: u32 = 4;
const ANSWER_PAUSE: Duration = Duration::from_millis(200);

/// Takes part in auctions.
pub(super) struct Bidding {
    nats: Nats,
    quoter: Quoter,
    inventory: Arc<Inventory>,
    /// Auctions that are over: no quote is given for them, and no tokens are held.
    over: Mutex<RecentSet<String>>,
    metrics: QuoteMetrics,
}

impl Bidding {
    pub(super) fn new(nats: Nats, quoter: Quoter, inventory: Arc<Inventory>) -> Self {
        Self { nats, quoter, inventory, over: Mutex::new(RecentSet::new(ENDS_MAX)), metrics: QuoteMetrics::default() }
    }

    /// Answers requests for quotes until it is dropped.
    pub(super) async fn answer_requests(self: Arc<Self>) {
        let signed = Arc::new(Semaphore::new(ANSWERING_SIGNED_MAX));
        let unsigned = Arc::new(Semaphore::new(ANSWERING_UNSIGNED_MAX));
        let mut answers = JoinSet::new();
        loop {
            let mut requests = match self.nats.client.subscribe(rfq_subjects(&self.nats.token)).await {
                Ok(requests) => requests,
                Err(error) => {
                    tracing::warn!(%error, "cannot subscribe to requests for quotes, trying again");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
            };
            while let Some(message) = requests.next().await {
                while answers.try_join_next().is_some() {}
                let Some(rfq) = request(&message) else { continue };
                let bulkhead = if rfq.payment_id.is_some() { &signed } else { &unsigned };
                let Ok(permit) = bulkhead.clone().try_acquire_owned() else {
                    self.metrics.count(Answered::Dropped);
                    tracing::warn!("too many requests for quotes at a time; one was dropped");
                    continue;
                };
                let (bidding, fingerprint) = (self.clone(), Hash32::sha256(&message.payload));
                let auction_id = rfq.auction_id.as_str();
                let span = info_span!(
                    target: trace::TARGET, parent: None, "quote",
                    otel.kind = "consumer", auction_id, declined = Empty,
                );
                trace::join(&span, auction_id, traceparent(message.headers.as_ref()));
                let answering = async move {
                    bidding.answer(&rfq, fingerprint).await;
                    drop(permit);
                };
                answers.spawn(answering.instrument(span));
            }
        }
    }

    async fn answer(&self, rfq: &Rfq, fingerprint: Hash32) {
        let bid = self.bid(rfq, fingerprint).await;
        if self.over().contains(&rfq.auction_id) {
            self.inventory.lose(&rfq.auction_id);
            self.metrics.count(Answered::Over);
            return;
        }
        let answered = match (&bid.decline, &bid.quote) {
            (Some(reason), _) => {
                if trace::is_on() {
                    Span::current().record("declined", reason);
                }
                tracing::info!(auction_id = rfq.auction_id, reason, "declined");
                Answered::Declined
            }
            _ => {
                tracing::info!(auction_id = rfq.auction_id, "quoted");
                Answered::Quoted
            }
        };
        let payload: Bytes = protocol::write(&bid).into();
        for attempt in 1..=ANSWER_ATTEMPTS {
            match self.nats.publish(bid_subject(&self.nats.token, &rfq.auction_id), payload.clone()).await {
                Ok(()) => return self.metrics.count(answered),
                Err(error) => tracing::warn!(auction_id = rfq.auction_id, attempt, %error, "bid was not stored"),
            }
            tokio::time::sleep(ANSWER_PAUSE).await;
        }
        self.metrics.count(Answered::Unsent);
    }

    async fn bid(&self, rfq: &Rfq, fingerprint: Hash32) -> Bid {
        for _ in 0..ANSWER_ATTEMPTS {
            match self.quoter.answer(rfq, fingerprint, Utc::now()).await {
                Ok(bid) => return bid,
                Err(error) => tracing::warn!(auction_id = rfq.auction_id, %error, "cannot price at the moment"),
            }
            tokio::time::sleep(ANSWER_PAUSE).await;
        }
        Bid::decline(Decline::TemporarilyUnavailable.code())
    }

    /// Follows the notices of auctions that this settler did not win, until it is dropped.
    pub(super) async fn follow_auction_ends(&self) {
        loop {
            match self.nats.client.subscribe(over_subjects(&self.nats.token)).await {
                Ok(mut ends) => {
                    while let Some(message) = ends.next().await {
                        let Ok(over) = protocol::read::<AuctionOver>(&message.payload) else { continue };
                        if split_subject(&message.subject, "over").is_some_and(|(_, id)| id == over.auction_id) {
                            self.end(over.auction_id);
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "cannot listen to the ends of auctions, trying again"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    fn end(&self, auction_id: String) {
        tracing::debug!(auction_id, "auction is over");
        self.over().insert(auction_id.clone(), ());
        self.inventory.lose(&auction_id);
    }

    fn over(&self) -> MutexGuard<'_, RecentSet<String>> {
        // Inserting cannot panic half way.
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a request for quotes; `None` when it is malformed or came under another auction's subject.
fn request(message: &async_nats::Message) -> Option<Rfq> {
    let rfq: Rfq = match protocol::read(&message.payload) {
        Ok(rfq) => rfq,
        Err(error) => {
            tracing::warn!(subject = %message.subject, %error, "request for quotes is unusable");
            return None;
        }
    };
    if split_subject(&message.subject, "rfq").is_none_or(|(_, auction_id)| auction_id != rfq.auction_id) {
        tracing::warn!(subject = %message.subject, "request for quotes came under another auction's subject");
        return None;
    }
    Some(rfq)
}
