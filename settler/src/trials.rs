//! Deliveries tried out before they are promised: whether a token can be paid to a recipient at all.
//!
//! A trial runs foreign code on the settler's node, so it is bounded: the outcome for a token and a recipient is remembered
//! for seconds, trials of requests that nobody signed have few places of their own and a rate, and one that finds no place is
//! not made. Then nothing is known, and nothing is lost: the award is tried out before it is accepted.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use events::AssetId;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::chain::{DeliveryChain, DeliveryOrder, Trial};

/// Trials at a time for payments that are signed.
const SIGNED_MAX: usize = 16;
/// Trials at a time for whoever asks.
const UNSIGNED_MAX: usize = 4;
/// Trials a second for whoever asks; so many at once after a pause.
const UNSIGNED_PER_SECOND: f64 = 20.0;
/// How long a node may take for one.
const TRIAL_MAX: Duration = Duration::from_secs(2);
/// How long it is remembered that a recipient can be paid.
const DELIVERS_FOR: Duration = Duration::from_secs(15);
/// How long that it can't; less, because what is lacking may be the settler's own.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Outcomes that are remembered.
const REMEMBERED_MAX: usize = 4096;

/// For whom a delivery is tried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// For a payment that its payer signed.
    Signed,
    /// For whoever asks.
    Unsigned,
}

/// Trials, and what came of them lately.
#[derive(Debug)]
pub struct Trials {
    remembered: Mutex<Remembered>,
    signed: Semaphore,
    unsigned: Semaphore,
    allowance: Mutex<Allowance>,
}

#[derive(Debug, Default)]
struct Remembered {
    outcomes: HashMap<(AssetId, String), (Instant, Trial)>,
    order: VecDeque<(AssetId, String)>,
}

/// What is left of the rate: a token bucket.
#[derive(Debug)]
struct Allowance {
    left: f64,
    since: Instant,
}

impl Default for Trials {
    fn default() -> Self {
        Self {
            remembered: Mutex::default(),
            signed: Semaphore::new(SIGNED_MAX),
            unsigned: Semaphore::new(UNSIGNED_MAX),
            allowance: Mutex::new(Allowance { left: UNSIGNED_PER_SECOND, since: Instant::now() }),
        }
    }
}

impl Trials {
    /// Whether `order` could be delivered on `chain`; `None` when that cannot be told for now.
    pub async fn of(&self, chain: &dyn DeliveryChain, order: &DeliveryOrder, lane: Lane) -> Option<Trial> {
        let key = (order.destination.asset().clone(), order.destination.account().to_string());
        if let Some(trial) = self.remembered(&key) {
            return Some(trial);
        }
        let _place = match lane {
            Lane::Signed => timeout(TRIAL_MAX, self.signed.acquire()).await.ok()?.ok()?,
            Lane::Unsigned => {
                let place = self.unsigned.try_acquire().ok()?;
                if !self.allowance().take(Instant::now()) {
                    return None;
                }
                place
            }
        };
        match timeout(TRIAL_MAX, chain.try_delivery(order)).await {
            Ok(Ok(trial)) => {
                self.remember(key, trial.clone());
                Some(trial)
            }
            Ok(Err(fault)) => {
                tracing::debug!(%fault, "a delivery cannot be tried out for now");
                None
            }
            Err(_) => None,
        }
    }

    fn remembered(&self, key: &(AssetId, String)) -> Option<Trial> {
        let remembered = self.memory();
        let (tried_at, trial) = remembered.outcomes.get(key)?;
        let lasts = if *trial == Trial::Delivers { DELIVERS_FOR } else { REFUSED_FOR };
        (tried_at.elapsed() < lasts).then(|| trial.clone())
    }

    fn remember(&self, key: (AssetId, String), trial: Trial) {
        let mut remembered = self.memory();
        if remembered.outcomes.insert(key.clone(), (Instant::now(), trial)).is_none() {
            remembered.order.push_back(key);
        }
        if remembered.order.len() > REMEMBERED_MAX
            && let Some(oldest) = remembered.order.pop_front()
        {
            remembered.outcomes.remove(&oldest);
        }
    }

    fn memory(&self) -> MutexGuard<'_, Remembered> {
        // Inserting cannot panic half way.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allowance(&self) -> MutexGuard<'_, Allowance> {
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Allowance {
    fn take(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.since).as_secs_f64() * UNSIGNED_PER_SECOND;
        self.left = (self.left + earned).min(UNSIGNED_PER_SECOND);
        self.since = now;
        let has = self.left >= 1.0;
        if has {
            self.left -= 1.0;
        }
        has
    }
}
