//! The watchdog for payments whose money is past its time.
//!
//! Each gateway warns of the payments in the shards it drives: once when a payment becomes overdue, and again at growing
//! intervals while it stays so.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use chrono::Utc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use events::PaymentId;
use journal::ShardLog;
use journal_jetstream::store::NatsJournal;
use projections::{OpenLeg, Overdue, OverdueStage, Projections};

/// First interval between two warnings of the same payment; it doubles.
const AGAIN_MIN: Duration = Duration::from_secs(60);
/// Longest interval.
const AGAIN_MAX: Duration = Duration::from_secs(3_600);
/// Payments warned of one by one at a look; more are counted.
const WARNINGS_MAX: usize = 20;
/// How long it may take to find out who drives a shard; one of which that is not known is warned of.
const OWNER_WAIT_MAX: Duration = Duration::from_secs(2);

/// When to look, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchdogOptions {
    /// Pause between two looks.
    pub every: Duration,
    /// How long after a deadline a payment counts as overdue.
    pub grace: Duration,
}

/// How many deliveries the watchdog found last that nobody attests while the refund window comes near.
#[derive(Debug, Clone, Default)]
pub struct Unattested(Arc<AtomicU64>);

impl Unattested {
    /// How many.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The alarm that there are such, in words that anyone may read: whose they are only operators are told.
    pub fn alarm(&self) -> Option<String> {
        let count = self.count();
        (count > 0).then(|| format!("deliveries without an attestation near their refund window: {count}"))
    }
}

/// What a look found of all shards, whoever drives them.
#[derive(Debug, Default)]
pub struct Look {
    /// How many payments are open, by shard and leg.
    pub open: BTreeMap<(u16, OpenLeg), u64>,
    /// The shard and the step of each that is overdue.
    pub overdue: Vec<(u16, OverdueStage)>,
}

/// What the watchdog's last look found. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LastLook(Arc<Mutex<Look>>);

impl LastLook {
    /// What `read` makes of it.
    pub fn read<T>(&self, read: impl FnOnce(&Look) -> T) -> T {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, look: Look) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = look;
    }
}

/// Looks for overdue payments, again and again.
pub struct Watchdog {
    projections: Projections,
    journal: NatsJournal,
    owner: String,
    options: WatchdogOptions,
    unattested: Unattested,
    last: LastLook,
}

impl Watchdog {
    /// What its last look found.
    pub fn last_look(&self) -> LastLook {
        self.last.clone()
    }

    /// What it finds of deliveries that nobody attests.
    pub fn unattested(&self) -> Unattested {
        self.unattested.clone()
    }

    /// A watchdog of the gateway that drives shards as `owner`.
    pub fn new(projections: Projections, journal: NatsJournal, owner: String, options: WatchdogOptions) -> Self {
        let (unattested, last) = (Unattested::default(), LastLook::default());
        Self { projections, journal, owner, options, unattested, last }
    }

    /// Looks until `shutdown`.
    pub async fn run(self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.watch()).await;
    }

    async fn watch(&self) {
        let mut warned = Warned::default();
        loop {
            sleep(self.options.every).await;
            let found = match self.projections.overdue(Utc::now(), self.options.grace).await {
                Ok(found) => found,
                Err(fault) => {
                    tracing::warn!(%fault, "what is overdue is unknown for now");
                    continue;
                }
            };
            let unattested = found.payments.iter().filter(|found| found.stage == OverdueStage::Unattested).count();
            self.unattested.0.store(unattested as u64, Ordering::Relaxed);
            let overdue = found.payments.iter().map(|overdue| (overdue.shard, overdue.stage)).collect();
            self.last.set(Look { open: found.open, overdue });
            let mut ours = Vec::with_capacity(found.payments.len());
            let mut shards = HashMap::new();
            for overdue in found.payments {
                let shard = overdue.shard;
                let mine = match shards.get(&shard) {
                    Some(mine) => *mine,
                    None => *shards.entry(shard).or_insert(self.drives(shard).await),
                };
                if mine {
                    ours.push(overdue);
                }
            }
            // Of a shard that is being checked a payment may be missing that is still overdue.
            let complete = found.uncertain.is_empty();
            warn(&warned.news(&ours, Instant::now(), complete), ours.len());
        }
    }

    async fn drives(&self, shard: u16) -> bool {
        // Nobody does, and nothing should be left in it.
        if self.journal.epochs().is_sealed(shard) {
            return true;
        }
        match timeout(OWNER_WAIT_MAX, self.journal.owner(shard)).await {
            Ok(Ok(owner)) => owner.as_ref() == Some(&self.owner),
            Ok(Err(_)) | Err(_) => true,
        }
    }
}

fn warn(news: &[&Overdue], total: usize) {
    for overdue in news.iter().take(WARNINGS_MAX) {
        let late = (Utc::now() - overdue.since).num_seconds();
        let transaction = overdue.transaction.as_ref().map(|last| last.transaction_hash.as_str()).unwrap_or_default();
        tracing::warn!(
            payment_id = %overdue.payment_id, stage = overdue.stage.as_str(), amount = %overdue.amount,
            asset = %overdue.asset, since = %overdue.since, late_seconds = late, waits_for = overdue.waits_for,
            transaction, settler = overdue.settler.as_ref().map(events::Did::as_str),
            verifier = %overdue.verifier.account, verifier_endpoint = overdue.verifier.endpoint,
            "OVERDUE: this payment's money is past its time"
        );
    }
    if let Some(more) = news.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
        tracing::warn!(more, total, "OVERDUE: more payments than are named here; `gw admin overdue` lists them");
    }
}

/// What was warned of, and when it is to be warned of again.
#[derive(Default)]
struct Warned(HashMap<PaymentId, Warning>);

struct Warning {
    stage: OverdueStage,
    next: Instant,
    interval: Duration,
}

impl Warned {
    /// Those of `overdue` that are to be warned of at `now`. What is not in it any more is forgotten when it is `complete`.
    fn news<'a>(&mut self, overdue: &'a [Overdue], now: Instant, complete: bool) -> Vec<&'a Overdue> {
        if complete {
            let mut before = std::mem::take(&mut self.0);
            self.0 = overdue.iter().filter_map(|found| before.remove_entry(&found.payment_id)).collect();
        }
        overdue.iter().filter(|found| self.is_due(found, now)).collect()
    }

    fn is_due(&mut self, found: &Overdue, now: Instant) -> bool {
        let interval = match self.0.get(&found.payment_id) {
            Some(warning) if warning.stage == found.stage => {
                if now < warning.next {
                    return false;
                }
                (warning.interval * 2).min(AGAIN_MAX)
            }
            _ => AGAIN_MIN,
        };
        let warning = Warning { stage: found.stage, next: now + interval, interval };
        self.0.insert(found.payment_id.clone(), warning);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use events::event::VerifierRef;

    use super::*;

    fn overdue(number: u32, stage: OverdueStage) -> Overdue {
        Overdue {
            payment_id: PaymentId::derive("payer", &number.to_string()),
            shard: 0,
            stage,
            asset: "eip155:1/slip44:60".parse().unwrap(),
            amount: "1".parse().unwrap(),
            since: Utc::now(),
            waits_for: "nothing",
            transaction: None,
            settler: None,
            verifier: VerifierRef::single("0x70997970c51812dc3a010c7d01b50e0d17dc79c8".parse().unwrap(), String::new()),
        }
    }

    #[test]
    fn a_payment_is_warned_of_at_growing_intervals() {
        let (mut warned, start) = (Warned::default(), Instant::now());
        let found = [overdue(1, OverdueStage::Undelivered)];
        let warnings = |warned: &mut Warned, from: u64, to: u64| {
            let looks = (from..to).step_by(15).map(|second| start + Duration::from_secs(second));
            looks.filter(|now| !warned.news(&found, *now, true).is_empty()).count()
        };
        assert_eq!(warnings(&mut warned, 0, 60), 1);
        // After one minute, then after two, four, eight …
        assert_eq!(warnings(&mut warned, 60, 3_600), 5);
        // … and every hour in the end.
        warnings(&mut warned, 3_600, 36_000);
        assert_eq!(warnings(&mut warned, 36_000, 36_000 + 86_400), 24);
    }

    #[test]
    fn what_is_new_about_a_payment_is_told_at_once() {
        let (mut warned, now) = (Warned::default(), Instant::now());
        let (one, two) = (overdue(1, OverdueStage::Undelivered), overdue(2, OverdueStage::Undelivered));
        let failed = overdue(1, OverdueStage::Unrefunded);
        let mut count = |found: &[Overdue], complete| warned.news(found, now, complete).len();
        assert_eq!(count(slice::from_ref(&one), true), 1);
        assert_eq!(count(&[one.clone(), two.clone()], true), 1);
        assert_eq!(count(&[failed.clone(), two.clone()], true), 1);
        // Not forgotten while it may only be out of sight, but forgotten once it is settled.
        assert_eq!(count(slice::from_ref(&two), false), 0);
        assert_eq!(count(&[failed.clone(), two.clone()], true), 0);
        assert_eq!(count(slice::from_ref(&two), true), 0);
        assert_eq!(count(&[failed, two], true), 1);
    }
}
