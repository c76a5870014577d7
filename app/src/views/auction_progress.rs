//! Auction progress: who was asked for quotes for a payment and who declined, while its auction is open (spec 2.11).
//!
//! It is provisional, as a batch's. What a reader costs is bounded: an answer serves everybody for a while, few are fetched at
//! a time, and what cannot be had now is left out, which the contract reads as unknown.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use ::auction::Progress;
use events::{PaymentEvent, PaymentId};
use journal::{Recorded, StreamLog};
use projections::{PaymentStatus, PaymentView};
use sagas::auction::request_for_quotes;

use super::quote_requests::{AuctionStatistics, so_far};

/// How old an answer may be.
const AGE_MAX: Duration = Duration::from_millis(500);
/// How long one is waited for.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Answers kept.
const KEPT_MAX: usize = 4_096;
/// Answers fetched at a time.
const FETCHES_MAX: usize = 16;

/// The progress of open auctions, as it was fetched last.
pub(crate) struct AuctionProgress {
    fetched: Mutex<HashMap<PaymentId, (Instant, AuctionStatistics)>>,
    fetches: Semaphore,
}

impl Default for AuctionProgress {
    fn default() -> Self {
        Self { fetched: Mutex::default(), fetches: Semaphore::new(FETCHES_MAX) }
    }
}

impl AuctionProgress {
    /// The view with what its auction has come to so far, where that is open and can be told.
    pub(crate) async fn complete(
        &self,
        reads: &dyn StreamLog,
        auctions: &dyn Progress,
        view: PaymentView,
    ) -> PaymentView {
        // The auction of a payment out of a batch was the batch's.
        let is_open =
            view.status == PaymentStatus::Pending && view.declines.is_none() && view.quote_request_id.is_none();
        if !is_open {
            return view;
        }
        let AuctionStatistics { requested_count, declines } = self.of(reads, auctions, &view.payment_id).await;
        PaymentView { requested_count, declines, ..view }
    }

    async fn of(&self, reads: &dyn StreamLog, auctions: &dyn Progress, payment_id: &PaymentId) -> AuctionStatistics {
        if let Some(known) = self.known(payment_id) {
            return known;
        }
        let Ok(_fetch) = self.fetches.try_acquire() else { return AuctionStatistics::default() };
        let fetched = timeout(WAIT_MAX, fetch(reads, auctions, payment_id)).await.unwrap_or_default();
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.retain(|_, (at, _)| at.elapsed() < AGE_MAX);
        }
        if kept.len() < KEPT_MAX {
            kept.insert(payment_id.clone(), (Instant::now(), fetched.clone()));
        }
        fetched
    }

    fn known(&self, payment_id: &PaymentId) -> Option<AuctionStatistics> {
        let kept = self.lock();
        let (at, known) = kept.get(payment_id)?;
        (at.elapsed() < AGE_MAX).then(|| known.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PaymentId, (Instant, AuctionStatistics)>> {
        // Entries are whole whenever the lock is free.
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn fetch(reads: &dyn StreamLog, auctions: &dyn Progress, payment_id: &PaymentId) -> AuctionStatistics {
    let commits = reads.load(&payment_id.into()).await.unwrap_or_default();
    let submitted = commits.first().and_then(|first| match Recorded::payment_events(first).next()? {
        PaymentEvent::Submitted(submitted) => Some(submitted),
        _ => None,
    });
    match submitted {
        Some(submitted) => so_far(auctions, &request_for_quotes(submitted)).await,
        None => AuctionStatistics::default(),
    }
}
