//! Auction progress: who was asked for quotes for a payment and who declined, while its auction is open (spec 2.11).
//!
//! It is provisional, as a batch's. What readers cost is bounded: an answer serves everybody for a while, so many are fetched
//! in a second, and what cannot be had now is left out, which the contract reads as unknown.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};

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
/// Answers fetched in a second.
const FETCHES_PER_SECOND: u32 = 200;

/// The progress of open auctions, as it was fetched last.
pub(crate) struct AuctionProgress(Mutex<Fetched>);

struct Fetched {
    /// When each answer was asked for, and the answer; while it is on its way, the one before.
    answers: HashMap<PaymentId, (Instant, AuctionStatistics)>,
    /// When this second of fetches began, and how many began in it.
    second: (Instant, u32),
}

impl Default for AuctionProgress {
    fn default() -> Self {
        Self(Mutex::new(Fetched { answers: HashMap::new(), second: (Instant::now(), 0) }))
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
        if let Some(known) = self.lock().known_or_begin(payment_id) {
            return known;
        }
        let fetched = timeout(WAIT_MAX, fetch(reads, auctions, payment_id)).await.unwrap_or_default();
        if let Some((_, answer)) = self.lock().answers.get_mut(payment_id) {
            answer.clone_from(&fetched);
        }
        fetched
    }

    fn lock(&self) -> MutexGuard<'_, Fetched> {
        // Entries are whole whenever the lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetched {
    /// What is answered without a fetch; `None` where the caller is to make one, which is noted as begun.
    fn known_or_begin(&mut self, payment_id: &PaymentId) -> Option<AuctionStatistics> {
        let now = Instant::now();
        let known = self.answers.get(payment_id);
        if let Some((at, answer)) = known
            && now.duration_since(*at) < AGE_MAX
        {
            return Some(answer.clone());
        }
        let before = known.map(|(_, answer)| answer.clone()).unwrap_or_default();
        if now.duration_since(self.second.0) >= Duration::from_secs(1) {
            self.second = (now, 0);
        }
        if self.answers.len() >= KEPT_MAX {
            self.answers.retain(|_, (at, _)| now.duration_since(*at) < AGE_MAX);
        }
        if self.second.1 >= FETCHES_PER_SECOND || self.answers.len() >= KEPT_MAX {
            return Some(before);
        }
        self.second.1 += 1;
        self.answers.insert(payment_id.clone(), (now, before));
        None
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

#[cfg(test)]
mod tests {
    use super::*;

    fn payment(number: u32) -> PaymentId {
        PaymentId::derive("tests", &number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_are_fetched_in_a_second_and_each_payment_twice_at_most() {
        let AuctionProgress(fetched) = AuctionProgress::default();
        let mut fetched = fetched.into_inner().unwrap();
        let mut begun = |numbers: std::ops::Range<u32>| {
            numbers.filter(|number| fetched.known_or_begin(&payment(*number)).is_none()).count()
        };
        assert_eq!(begun(0..10), 10);
        assert_eq!(begun(0..10), 0, "they are on their way");
        tokio::time::advance(AGE_MAX).await;
        assert_eq!(begun(0..10), 10);
        assert_eq!(begun(100..10_000), FETCHES_PER_SECOND as usize - 20);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(begun(100..10_000), FETCHES_PER_SECOND as usize);
    }
}
