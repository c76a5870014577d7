//! Auction progress: who was asked for quotes for a payment or a batch and who declined, while its auction is open (spec 2.11).
//!
//! It is provisional. What readers cost is bounded: an answer serves everybody for a while, so many are fetched
//! in a second, of which a caller has a share, and what cannot be had now is left out, which the contract reads as unknown.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};

use ::auction::Progress;
use events::{PaymentEvent, PaymentId};
use journal::{StreamLog, StreamStore};
use net::callers::{AddressKey, Caller};
use projections::{PaymentStatus, PaymentView, QuoteRequestView};
use sagas::auction::request_for_quotes;

use super::quote_requests::{AuctionStatistics, of_open_batch, so_far};

/// How old an answer may be.
const AGE_MAX: Duration = Duration::from_millis(500);
/// How long one is waited for.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Answers kept.
const KEPT_MAX: usize = 4_096;
/// Answers fetched in a second.
const FETCHES_PER_SECOND: u32 = 200;
/// The share of them that an address may have, and the share of a /48.
const ADDRESS_SHARE: u32 = 8;
const SITE_SHARE: u32 = 4;

/// The progress of open auctions, as it was fetched last.
pub(crate) struct AuctionProgress(Mutex<Fetched>);

struct Fetched {
    /// When each answer was asked for, and the answer; while it is on its way, the one before.
    answers: HashMap<String, (Instant, AuctionStatistics)>,
    budget: FetchBudget,
}

/// Fetches of one second, and of whom they were.
struct FetchBudget {
    began: Instant,
    /// Fetches that began in it.
    all: u32,
    addresses: HashMap<AddressKey, u32>,
    sites: HashMap<AddressKey, u32>,
}

impl FetchBudget {
    fn new() -> Self {
        Self { began: Instant::now(), all: 0, addresses: HashMap::new(), sites: HashMap::new() }
    }

    /// Takes one for who asks; `false` where nothing is left of all or of its share. Whom the operator exempts is `None`.
    fn take(&mut self, address: Option<AddressKey>) -> bool {
        let site = address.and_then(AddressKey::site);
        let taken = |counts: &HashMap<AddressKey, u32>, key: Option<AddressKey>| {
            key.and_then(|key| counts.get(&key)).copied().unwrap_or_default()
        };
        let has_room = self.all < FETCHES_PER_SECOND
            && taken(&self.addresses, address) < FETCHES_PER_SECOND / ADDRESS_SHARE
            && taken(&self.sites, site) < FETCHES_PER_SECOND / SITE_SHARE;
        if has_room {
            self.all += 1;
            for (counts, key) in [(&mut self.addresses, address), (&mut self.sites, site)] {
                key.into_iter().for_each(|key| *counts.entry(key).or_default() += 1);
            }
        }
        has_room
    }
}

impl Default for AuctionProgress {
    fn default() -> Self {
        Self(Mutex::new(Fetched { answers: HashMap::new(), budget: FetchBudget::new() }))
    }
}

impl AuctionProgress {
    /// The view with what its auction has come to so far, where that is open and can be told.
    pub(crate) async fn complete(
        &self,
        reads: &dyn StreamLog,
        auctions: &dyn Progress,
        caller: &Caller,
        view: PaymentView,
    ) -> PaymentView {
        // The auction of a payment out of a batch was the batch's.
        let is_open =
            view.status == PaymentStatus::Pending && view.declines.is_none() && view.quote_request_id.is_none();
        if !is_open {
            return view;
        }
        let AuctionStatistics { requested_count, declines } = self.of(reads, auctions, caller, &view.payment_id).await;
        PaymentView { requested_count, declines, ..view }
    }

    async fn of(
        &self,
        reads: &dyn StreamLog,
        auctions: &dyn Progress,
        caller: &Caller,
        payment_id: &PaymentId,
    ) -> AuctionStatistics {
        let address = (!caller.is_exempt()).then(|| caller.address());
        if let Some(known) = self.lock().known_or_begin(payment_id.as_str(), address, AGE_MAX) {
            return known;
        }
        let fetched = timeout(WAIT_MAX, fetch(reads, auctions, payment_id)).await.ok().flatten();
        self.lock().fetched(payment_id.as_str(), fetched)
    }

    /// The same of a batch, as recorded where its auction is over. It is fetched anew for whoever has a share left, and is
    /// what was fetched last for others.
    pub(crate) async fn of_batch(
        &self,
        journal: &dyn StreamStore,
        auctions: &dyn Progress,
        caller: &Caller,
        view: &QuoteRequestView,
    ) -> AuctionStatistics {
        if view.quotes.is_some() {
            return AuctionStatistics { requested_count: view.requested_count, declines: view.declines.clone() };
        }
        let (id, address) = (view.quote_request_id.as_str(), (!caller.is_exempt()).then(|| caller.address()));
        if let Some(known) = self.lock().known_or_begin(id, address, Duration::ZERO) {
            return known;
        }
        let fetched = of_open_batch(journal, auctions, view).await;
        self.lock().fetched(id, Some(fetched).filter(|statistics| statistics.declines.is_some()))
    }

    fn lock(&self) -> MutexGuard<'_, Fetched> {
        // Entries are whole whenever the lock is free.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fetched {
    /// What is answered without a fetch; `None` where the caller is to make one, which is noted as begun.
    fn known_or_begin(
        &mut self,
        id: &str,
        address: Option<AddressKey>,
        age_max: Duration,
    ) -> Option<AuctionStatistics> {
        let now = Instant::now();
        let known = self.answers.get(id);
        if let Some((at, answer)) = known
            && now.duration_since(*at) < age_max
        {
            return Some(answer.clone());
        }
        let before = known.map(|(_, answer)| answer.clone()).unwrap_or_default();
        if now.duration_since(self.budget.began) >= Duration::from_secs(1) {
            self.budget = FetchBudget::new();
        }
        if self.answers.len() >= KEPT_MAX {
            self.answers.retain(|_, (at, _)| now.duration_since(*at) < AGE_MAX);
        }
        if self.answers.len() >= KEPT_MAX || !self.budget.take(address) {
            return Some(before);
        }
        self.answers.insert(id.to_owned(), (now, before));
        None
    }

    /// Keeps what a fetch came to, and tells what is known now: the answer before where it came to nothing.
    fn fetched(&mut self, id: &str, fetched: Option<AuctionStatistics>) -> AuctionStatistics {
        let known = self.answers.get_mut(id).map(|(_, answer)| answer);
        match (known, fetched) {
            (Some(known), Some(fetched)) => {
                known.clone_from(&fetched);
                fetched
            }
            (Some(known), None) => known.clone(),
            (None, fetched) => fetched.unwrap_or_default(),
        }
    }
}

/// The statistics of the payment's auction; `None` where they cannot be had now.
async fn fetch(reads: &dyn StreamLog, auctions: &dyn Progress, payment_id: &PaymentId) -> Option<AuctionStatistics> {
    let commits = reads.load(&payment_id.into()).await.ok()?;
    let submitted = match commits.first()?.payment_events().next()? {
        PaymentEvent::Submitted(submitted) => submitted,
        _ => return None,
    };
    let statistics = so_far(auctions, &request_for_quotes(submitted)).await;
    Some(statistics).filter(|statistics| statistics.declines.is_some())
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
            numbers.filter(|number| fetched.known_or_begin(payment(*number).as_str(), None, AGE_MAX).is_none()).count()
        };
        assert_eq!(begun(0..10), 10);
        assert_eq!(begun(0..10), 0, "they are on their way");
        tokio::time::advance(AGE_MAX).await;
        assert_eq!(begun(0..10), 10);
        assert_eq!(begun(100..10_000), FETCHES_PER_SECOND as usize - 20);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(begun(100..10_000), FETCHES_PER_SECOND as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_has_a_share_of_what_is_fetched() {
        let AuctionProgress(fetched) = AuctionProgress::default();
        let mut fetched = fetched.into_inner().unwrap();
        let mut next = 0;
        let mut begun = |from: &str, count: usize| {
            let address = Some(AddressKey::of(from.parse().unwrap()));
            let is_begun = |_: &usize| {
                next += 1;
                fetched.known_or_begin(payment(next).as_str(), address, AGE_MAX).is_none()
            };
            (0..count).filter(is_begun).count()
        };
        let (share, site) = (FETCHES_PER_SECOND / ADDRESS_SHARE, FETCHES_PER_SECOND / SITE_SHARE);
        assert_eq!(begun("198.51.100.1", 1_000), share as usize);
        assert_eq!(begun("203.0.113.1", 10), 10, "another caller is answered");
        let of_site = (1..=9).map(|net| begun(&format!("2001:db8:0:{net}::1"), 1_000)).sum::<usize>();
        assert_eq!(of_site, site as usize);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(begun("198.51.100.1", 1_000), share as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_comes_to_nothing_leaves_the_answer_before() {
        let AuctionProgress(fetched) = AuctionProgress::default();
        let mut fetched = fetched.into_inner().unwrap();
        let known = AuctionStatistics { requested_count: Some(3), declines: Some(Vec::new()) };
        assert!(fetched.known_or_begin(payment(1).as_str(), None, AGE_MAX).is_none());
        assert_eq!(fetched.fetched(payment(1).as_str(), Some(known.clone())).requested_count, Some(3));
        tokio::time::advance(AGE_MAX).await;
        assert!(fetched.known_or_begin(payment(1).as_str(), None, AGE_MAX).is_none());
        assert_eq!(fetched.fetched(payment(1).as_str(), None).requested_count, Some(3));
        let told = fetched.known_or_begin(payment(1).as_str(), None, AGE_MAX).unwrap();
        assert_eq!((told.requested_count, told.declines.map(|declines| declines.len())), (Some(3), Some(0)));
        assert!(fetched.known_or_begin(payment(2).as_str(), None, AGE_MAX).is_none());
        assert_eq!(fetched.fetched(payment(2).as_str(), None).requested_count, None);
    }

    /// What is shown of a batch is of now, as long as its readers leave something.
    #[tokio::test(start_paused = true)]
    async fn what_may_not_be_old_is_fetched_each_time_within_the_shares() {
        let mut fetched = Fetched { answers: HashMap::new(), budget: FetchBudget::new() };
        let known = AuctionStatistics { requested_count: Some(3), declines: Some(Vec::new()) };
        let mut fetches = 0;
        for _ in 0..1_000 {
            match fetched.known_or_begin("batch", None, Duration::ZERO) {
                None => {
                    fetches += 1;
                    fetched.fetched("batch", Some(known.clone()));
                }
                Some(answer) => assert_eq!(answer, known),
            }
        }
        assert_eq!(fetches, FETCHES_PER_SECOND);
    }
}
