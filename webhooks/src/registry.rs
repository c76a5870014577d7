//! The registry: all webhooks, in memory, as new as the stream of their entries when it is asked to be.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, Instant},
};

use bytes::Bytes;
use chrono::TimeDelta;

use events::time::Timestamp;
use projections::PaymentView;

use crate::{
    records::{Error, Record, Records, read_all},
    webhook::{Entry, EventType, Registration, Webhook, WebhookId, WebhookOwner},
};

const PREFIX: &str = "gw.webhook";
const ALL: &str = "gw.webhook.*";
/// How long a deleted webhook counts for how many its owner has registered: so registering and deleting in a loop ends.
const DELETED_COUNTS: TimeDelta = TimeDelta::days(1);
/// How many times as many webhooks as an owner may have may be registered by him in that time.
const CHURN: usize = 5;
/// How often it is looked for what may be forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// How much earlier than a webhook's registration what it hears of may have been stored: clocks of servers differ.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(2);

/// How many webhooks there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Of one owner.
    pub of_owner: usize,
    /// Of all. Those of owners without a payment end at half of it, those that are kept with the deleted ones of a day at twice.
    pub all: usize,
}

/// Why nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The owner has as many as he may have.
    #[error("an owner may have {0} webhooks, and register five times as many a day")]
    OwnerFull(usize),
    /// All have.
    #[error("there are as many webhooks as this gateway takes")]
    Full,
    /// The places that are left are for owners with a payment.
    #[error(
        "half of the webhooks that this gateway takes are there; more are for owners of a payment that was accepted"
    )]
    NoPayment,
    /// There is no such webhook, or it is another's.
    #[error("there is no such webhook")]
    Unknown,
    /// The store.
    #[error(transparent)]
    Store(#[from] Error),
}

/// All webhooks. Cheap to clone.
#[derive(Clone)]
pub struct Registry(Arc<Inner>);

struct Inner {
    records: Arc<dyn Records>,
    bounds: Bounds,
    known: RwLock<Known>,
    /// One reads on at a time; the others wait for what it finds.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    read_up_to: u64,
    /// Those that are not deleted.
    webhooks: BTreeMap<WebhookId, Arc<Webhook>>,
    /// The same by originator.
    of_originator: HashMap<String, Vec<WebhookId>>,
    /// When webhooks of an owner were deleted, as long as that counts.
    deleted: HashMap<WebhookOwner, Vec<Timestamp>>,
    forgotten_at: Option<Instant>,
}

impl Known {
    /// Takes in a record. A webhook of which one cannot be read is left out, and holds up no other.
    fn take(&mut self, record: &Record) {
        if record.sequence <= self.read_up_to {
            return;
        }
        self.read_up_to = record.sequence;
        if let Err(reason) = self.apply(record) {
            let Record { subject, sequence, .. } = record;
            tracing::error!(subject, sequence, reason, "a webhook cannot be read, and is left out");
            if let Ok(id) = record.last_token().parse() {
                self.remove(&id);
            }
        }
    }

    fn apply(&mut self, record: &Record) -> Result<(), String> {
        let entry: Entry = serde_json::from_slice(&record.body).map_err(|error| error.to_string())?;
        let id: WebhookId = record.last_token().parse().map_err(|_| "names no webhook".to_owned())?;
        let Some(webhook) = self.webhooks.get_mut(&id) else {
            let webhook = Webhook::begin(id.clone(), record.sequence, record.stored_at, entry);
            let webhook = webhook.ok_or_else(|| "begins without a registration".to_owned())?;
            self.of_originator.entry(webhook.registration.owner.originator.clone()).or_default().push(id.clone());
            self.webhooks.insert(id, Arc::new(webhook));
            return Ok(());
        };
        let webhook = Arc::make_mut(webhook);
        webhook.apply(record.sequence, entry);
        if let Some(at) = webhook.deleted_at {
            if chrono::Utc::now() - at < DELETED_COUNTS {
                self.deleted.entry(webhook.registration.owner.clone()).or_default().push(at);
            }
            self.remove(&id);
        }
        Ok(())
    }

    fn remove(&mut self, id: &WebhookId) {
        let Some(webhook) = self.webhooks.remove(id) else { return };
        let originator = &webhook.registration.owner.originator;
        if let Some(ids) = self.of_originator.get_mut(originator) {
            ids.retain(|other| other != id);
            if ids.is_empty() {
                self.of_originator.remove(originator);
            }
        }
    }

    /// All that take a place: those that are there, and those that were deleted lately.
    fn kept(&self) -> usize {
        self.webhooks.len() + self.deleted.values().map(Vec::len).sum::<usize>()
    }

    /// Whether half of the places are taken.
    fn is_scarce(&self, bounds: Bounds) -> bool {
        self.kept() * 2 >= bounds.all
    }

    fn of_originator(&self, originator: &str) -> impl Iterator<Item = &Arc<Webhook>> {
        let ids = self.of_originator.get(originator).into_iter().flatten();
        ids.filter_map(|id| self.webhooks.get(id))
    }

    /// Forgets what was deleted long ago.
    fn forget(&mut self, now: Timestamp) {
        self.forgotten_at = Some(Instant::now());
        self.deleted.retain(|_, times| {
            times.retain(|at| now - *at < DELETED_COUNTS);
            !times.is_empty()
        });
    }
}

impl Registry {
    /// One that knows nothing yet.
    pub fn new(records: Arc<dyn Records>, bounds: Bounds) -> Self {
        Self(Arc::new(Inner { records, bounds, known: RwLock::default(), reading: tokio::sync::Mutex::default() }))
    }

    // Nothing panics while one of these is held.
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads every entry that was acknowledged before the call.
    ///
    /// # Errors
    /// [`Error`], also while the copy that answers is behind.
    pub async fn catch_up(&self) -> Result<(), Error> {
        if self.known().forgotten_at.is_none_or(|at| at.elapsed() >= FORGET_EVERY) {
            self.known_mut().forget(chrono::Utc::now());
        }
        let head = self.0.records.head().await?;
        if self.known().read_up_to >= head {
            return Ok(());
        }
        let _turn = self.0.reading.lock().await;
        let from = self.known().read_up_to + 1;
        if from > head {
            return Ok(());
        }
        read_all(&*self.0.records, ALL, from, |record| {
            self.known_mut().take(&record);
            Ok(())
        })
        .await?;
        match self.known().read_up_to {
            read if read >= head => Ok(()),
            read => Err(Error::Unavailable(format!("a copy has entries up to {read} of {head}"))),
        }
    }

    /// Whether there is no webhook, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.known().webhooks.is_empty()
    }

    /// The webhook, as far as is known, also a disabled one; not a deleted one.
    pub fn get(&self, id: &WebhookId) -> Option<Arc<Webhook>> {
        self.known().webhooks.get(id).cloned()
    }

    /// All of a partition.
    pub fn of_partition(&self, partition: u16, partitions: u16) -> Vec<WebhookId> {
        let known = self.known();
        known.webhooks.keys().filter(|id| id.partition(partitions) == partition).cloned().collect()
    }

    /// All there are, as far as is known, by id.
    pub fn all(&self) -> Vec<Arc<Webhook>> {
        self.known().webhooks.values().cloned().collect()
    }

    /// Those that hear of this change of a payment, whose commit was stored at `stored_at`.
    pub fn hearing(&self, payment: &PaymentView, kind: EventType, stored_at: Timestamp) -> Vec<Arc<Webhook>> {
        let known = self.known();
        let payer = payment.source.account().originator();
        let owners =
            [Some(payment.originator.as_str()), Some(payer.as_str()).filter(|payer| *payer != payment.originator)];
        let webhooks = owners.into_iter().flatten().flat_map(|owner| known.of_originator(owner));
        let hearing = webhooks
            .filter(|webhook| webhook.hears(payment, kind) && stored_at >= webhook.registered_at - CLOCKS_DIFFER);
        hearing.cloned().collect()
    }

    /// The webhooks of an owner, by id.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn of_owner(&self, originator: &str) -> Result<Vec<Arc<Webhook>>, Error> {
        self.catch_up().await?;
        let known = self.known();
        let mut found: Vec<_> = known.of_originator(originator).cloned().collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    /// Whether half of the places are taken: then one registers only who has a payment that was accepted.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn is_scarce(&self) -> Result<bool, Error> {
        self.catch_up().await?;
        Ok(self.known().is_scarce(self.0.bounds))
    }

    /// Registers a webhook of an owner who has a payment that was accepted, or none. Two gateways that do so at the same moment may come past the bounds by one each.
    ///
    /// # Errors
    /// [`Refusal`]. After [`Error::Unavailable`] it may be there all the same, and the list tells.
    pub async fn register(
        &self,
        registration: Registration,
        has_payment: bool,
        now: Timestamp,
    ) -> Result<Arc<Webhook>, Refusal> {
        self.catch_up().await?;
        {
            let (known, bounds, owner) = (self.known(), self.0.bounds, &registration.owner);
            // An account that is a contract is another on each chain.
            let live = known.of_originator(&owner.originator).filter(|webhook| webhook.registration.owner == *owner);
            let live = live.count();
            let deleted = known.deleted.get(owner).into_iter().flatten();
            let lately = live + deleted.filter(|at| now - **at < DELETED_COUNTS).count();
            if live >= bounds.of_owner || lately >= bounds.of_owner * CHURN {
                return Err(Refusal::OwnerFull(bounds.of_owner));
            }
            if known.webhooks.len() >= bounds.all || known.kept() >= bounds.all.saturating_mul(2) {
                return Err(Refusal::Full);
            }
            if !has_payment && known.is_scarce(bounds) {
                return Err(Refusal::NoPayment);
            }
        }
        let id = WebhookId::random();
        self.store(&id, 0, &Entry::Registered(registration)).await?;
        self.catch_up().await?;
        self.get(&id).ok_or(Refusal::Unknown)
    }

    /// Appends an entry to a webhook's history, unless it is deleted or `is_idle` says that there is nothing to change.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn change(
        &self,
        id: &WebhookId,
        entry: &Entry,
        is_idle: impl Fn(&Webhook) -> bool,
    ) -> Result<(), Refusal> {
        loop {
            self.catch_up().await?;
            let webhook = self.get(id).ok_or(Refusal::Unknown)?;
            if is_idle(&webhook) {
                return Ok(());
            }
            match self.store(id, webhook.sequence, entry).await {
                Err(Error::Conflict) => {}
                stored => return Ok(stored.map(drop)?),
            }
        }
    }

    async fn store(&self, id: &WebhookId, after: u64, entry: &Entry) -> Result<u64, Error> {
        let body = serde_json::to_vec(entry).map_err(|error| Error::Unreadable(error.to_string()))?;
        self.0.records.append(&format!("{PREFIX}.{id}"), Some(after), Bytes::from(body)).await
    }
}
