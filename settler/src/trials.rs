//! Trials: deliveries simulated before they are promised, within bulkheads and a rate limit. A trial tells whether a
//! token can be paid to a recipient at all.
//!
//! A trial runs foreign code on the settler's node, so it is bounded: its outcome for a token and a recipient is cached
//! for seconds; for a coin it is cached for one amount, because the recipient's code sees it. Trials for unsigned requests have
//! a small bulkhead of their own and a rate limit. A trial beyond these limits is not made. The outcome is then unknown, which is safe: the award is tried before it is accepted.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use chains::{perform::PerformError, settler::DeliveryChain};
use events::{Amount, OwnedAsset};
use sagas::ports::DeliveryOrder;

use crate::{recent::RecentMap, reverts::Reverts};

/// Concurrent trials for signed payments.
const SIGNED_MAX: usize = 16;
/// Concurrent trials for unsigned requests.
const UNSIGNED_MAX: usize = 4;
/// Trials a second for unsigned requests, and the largest burst.
const UNSIGNED_PER_SECOND: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// Longest time of one trial on the node.
const TRIAL_MAX: Duration = Duration::from_secs(2);
/// How long a successful outcome is cached.
const DELIVERS_FOR: Duration = Duration::from_secs(15);
/// How long a refusal is cached; less, because the cause may be the settler's own.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Most cached outcomes.
const CACHED_MAX: usize = 4096;

/// Outcome of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The delivery would succeed.
    Delivers,
    /// The chain refuses it.
    Refused {
        /// Why, in words.
        reason: String,
    },
}

/// The bulkhead that a trial runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bulkhead {
    /// Trials for payments that their payers signed.
    Signed,
    /// Trials for unsigned requests.
    Unsigned,
}

/// What an outcome is of: asset and recipient, and of a coin the amount, too. A token tells its recipients' code rarely of a
/// transfer, a coin always.
type Subject = (OwnedAsset, Option<Amount>);

fn subject(order: &DeliveryOrder) -> Subject {
    let amount = order.destination.asset().is_coin().then_some(order.amount);
    (order.destination.clone(), amount)
}

/// Runs trials and caches their outcomes.
#[derive(Debug)]
pub struct Trials {
    /// Outcomes, with the time of the trial.
    cache: Mutex<RecentMap<Subject, (Instant, Trial)>>,
    signed: Semaphore,
    unsigned: Semaphore,
    /// Rate limit of trials for unsigned requests: a token bucket.
    unsigned_rate: DefaultDirectRateLimiter,
    /// What trials could not tell.
    reverts: Reverts,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            cache: Mutex::new(RecentMap::new(CACHED_MAX)),
            signed: Semaphore::new(SIGNED_MAX),
            unsigned: Semaphore::new(UNSIGNED_MAX),
            unsigned_rate: RateLimiter::direct(Quota::per_second(UNSIGNED_PER_SECOND)),
            reverts: Reverts::default(),
        }
    }
}

impl Trials {
    /// Whether `order` could be delivered on `chain`; `None` when it is unknown at the moment.
    pub async fn of(&self, chain: &dyn DeliveryChain, order: &DeliveryOrder, bulkhead: Bulkhead) -> Option<Trial> {
        if self.reverts.is_exhausted(&order.destination) {
            return Some(Trial::Refused { reason: "deliveries to the recipient reverted in blocks".to_owned() });
        }
        let subject = subject(order);
        if let Some(trial) = self.cached(&subject) {
            return Some(trial);
        }
        let _permit = match bulkhead {
            Bulkhead::Signed => timeout(TRIAL_MAX, self.signed.acquire()).await.ok()?.ok()?,
            Bulkhead::Unsigned => {
                let permit = self.unsigned.try_acquire().ok()?;
                self.unsigned_rate.check().ok()?;
                permit
            }
        };
        let trial = match timeout(TRIAL_MAX, chain.try_delivery(order)).await.ok()? {
            Ok(()) => Trial::Delivers,
            Err(PerformError::Transient(fault)) => {
                tracing::debug!(%fault, "a delivery cannot be tried out for now");
                return None;
            }
            Err(refused) => Trial::Refused { reason: refused.to_string() },
        };
        self.cache().insert(subject, (Instant::now(), trial.clone()));
        Some(trial)
    }

    /// Deliveries that reverted all the same.
    pub fn reverts(&self) -> &Reverts {
        &self.reverts
    }

    fn cached(&self, subject: &Subject) -> Option<Trial> {
        let cache = self.cache();
        let (tried_at, trial) = cache.get(subject)?;
        let lasts = if *trial == Trial::Delivers { DELIVERS_FOR } else { REFUSED_FOR };
        (tried_at.elapsed() < lasts).then(|| trial.clone())
    }

    fn cache(&self) -> MutexGuard<'_, RecentMap<Subject, (Instant, Trial)>> {
        // Inserting cannot panic half way.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
