//! The desk: what owners and operators may ask for.

use std::{collections::HashSet, sync::Arc};

use chrono::Utc;

use events::{PaymentId, time::Timestamp};

use crate::{
    deliveries::{Deliveries, REDELIVERIES_MAX, StoredDue},
    http::{HttpEndpoints, InvalidUrl},
    message::MessageId,
    queue::{DeadLetter, Health, Limits},
    records,
    registry::{Refusal, Registry},
    signature::{Keys, PublicKey},
    timetable::Timetable,
    webhook::{Entry, Registration, Webhook, WebhookId},
};

/// What owners and operators may ask for. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    registry: Registry,
    deliveries: Deliveries,
    keys: Keys,
    endpoints: Arc<HttpEndpoints>,
    limits: Limits,
    timetable: Timetable,
}

/// How a webhook stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The webhook.
    pub webhook: Arc<Webhook>,
    /// How its endpoint does.
    pub health: Health,
    /// Messages that wait for it.
    pub waiting: usize,
    /// Whether there may be more, which are not counted.
    pub waiting_more: bool,
    /// Messages that were given up and not asked for again, the newest last.
    pub dead: Vec<DeadLetter>,
    /// How many more there are.
    pub dead_more: u64,
}

/// Which messages are delivered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All about a payment.
    Payment(PaymentId),
    /// These.
    Messages(Vec<MessageId>),
    /// Those about what happened from one time until before another.
    Between(Timestamp, Timestamp),
    /// The dead letters that are listed.
    Dead,
}

/// Why nothing is delivered again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedeliveryError {
    /// There is no such message for this webhook.
    #[error("there is no message {0} for this webhook")]
    NoMessage(MessageId),
    /// They are too many for one call.
    #[error("that are more than {0} messages; ask for fewer at a time")]
    TooMany(usize),
    /// Too many would have to be looked through.
    #[error("there are too many messages in that time to be looked through; ask for a shorter one")]
    TooLong,
    /// Each was delivered again as often as one may be.
    #[error("a message is delivered again {REDELIVERIES_MAX} times at most")]
    TooOften,
    /// What waits for the webhook comes first.
    #[error("too much waits for this webhook; ask again when its endpoint has taken that")]
    QueueFull,
    /// The webhook or the store.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<records::Error> for RedeliveryError {
    fn from(error: records::Error) -> Self {
        Self::Refused(error.into())
    }
}

impl Desk {
    /// Over these.
    pub fn new(
        registry: Registry,
        deliveries: Deliveries,
        keys: Keys,
        endpoints: Arc<HttpEndpoints>,
        limits: Limits,
        timetable: Timetable,
    ) -> Self {
        Self { registry, deliveries, keys, endpoints, limits, timetable }
    }

    /// The keys that receivers verify with.
    pub fn public_keys(&self) -> Vec<PublicKey> {
        self.keys.public()
    }

    /// The secret of a webhook, for its owner.
    pub fn secret(&self, id: &WebhookId) -> String {
        self.keys.secret(id)
    }

    /// The URL as it is called for this owner.
    ///
    /// # Errors
    /// [`InvalidUrl`].
    pub async fn check_url(&self, url: &str, originator: &str) -> Result<String, InvalidUrl> {
        self.endpoints.check(url, originator).await
    }

    /// Whether places are scarce: then one registers only who has a payment that was accepted.
    ///
    /// # Errors
    /// [`records::Error`].
    pub async fn is_scarce(&self) -> Result<bool, records::Error> {
        self.registry.is_scarce().await
    }

    /// Registers a webhook whose URL was checked, of an owner who has a payment that was accepted or none.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn register(&self, registration: Registration, has_payment: bool) -> Result<Arc<Webhook>, Refusal> {
        self.registry.register(registration, has_payment, Utc::now()).await
    }

    /// The webhooks of an owner.
    ///
    /// # Errors
    /// [`records::Error`].
    pub async fn of_owner(&self, originator: &str) -> Result<Vec<Arc<Webhook>>, records::Error> {
        self.registry.of_owner(originator).await
    }

    /// All webhooks.
    ///
    /// # Errors
    /// [`records::Error`].
    pub async fn all(&self) -> Result<Vec<Arc<Webhook>>, records::Error> {
        self.registry.catch_up().await?;
        Ok(self.registry.all())
    }

    /// A webhook; with `originator`, only if it is that owner's.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn find(&self, id: &WebhookId, originator: Option<&str>) -> Result<Arc<Webhook>, Refusal> {
        self.registry.catch_up().await?;
        let webhook = self.registry.get(id).ok_or(Refusal::Unknown)?;
        match originator {
            Some(originator) if webhook.registration.owner.originator != originator => Err(Refusal::Unknown),
            _ => Ok(webhook),
        }
    }

    /// How a webhook stands.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn state(&self, webhook: Arc<Webhook>) -> Result<State, Refusal> {
        let mut queue = self.deliveries.queue(&webhook.id, self.limits, &self.timetable).await?;
        if let Some(at) = webhook.enabled_at {
            queue.enabled(at);
        }
        let (dead, dead_more) = queue.dead();
        Ok(State {
            health: queue.health().clone(),
            waiting: queue.outstanding(),
            waiting_more: queue.wanted() == 0,
            dead: dead.cloned().collect(),
            dead_more,
            webhook,
        })
    }

    /// Deletes a webhook. What waits for it is not delivered any more.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn delete(&self, id: &WebhookId) -> Result<(), Refusal> {
        match self.registry.change(id, &Entry::Deleted { at: Utc::now() }, |_| false).await {
            // Another call did so.
            Err(Refusal::Unknown) => Ok(()),
            changed => changed,
        }
    }

    /// The messages that a selection means, at most `max`.
    ///
    /// # Errors
    /// [`RedeliveryError`].
    pub async fn select(
        &self,
        webhook: &Arc<Webhook>,
        selection: &Selection,
        max: usize,
    ) -> Result<Vec<StoredDue>, RedeliveryError> {
        let id = &webhook.id;
        let mut found = match selection {
            Selection::Payment(payment_id) => self.deliveries.dues_of(id, payment_id).await?,
            Selection::Between(from, until) => {
                self.deliveries.dues_between(id, *from, *until, max).await?.ok_or(RedeliveryError::TooLong)?
            }
            Selection::Messages(ids) => self.messages(id, ids, max).await?,
            Selection::Dead => {
                let ids: Vec<_> =
                    self.state(Arc::clone(webhook)).await?.dead.into_iter().map(|letter| letter.id).collect();
                self.messages(id, &ids[ids.len().saturating_sub(max)..], max).await?
            }
        };
        let mut seen = HashSet::new();
        found.retain(|stored| stored.due.redelivery == 0 && seen.insert(stored.due.id.clone()));
        found.sort_by_key(|stored| stored.sequence);
        if found.len() > max { Err(RedeliveryError::TooMany(max)) } else { Ok(found) }
    }

    async fn messages(&self, id: &WebhookId, ids: &[MessageId], max: usize) -> Result<Vec<StoredDue>, RedeliveryError> {
        if ids.len() > max {
            return Err(RedeliveryError::TooMany(max));
        }
        let mut found = Vec::with_capacity(ids.len());
        for message in ids {
            let none = || RedeliveryError::NoMessage(message.clone());
            let of_payment = self.deliveries.dues_of(id, &message.payment_id().ok_or_else(none)?).await?;
            found.push(
                of_payment
                    .into_iter()
                    .find(|stored| stored.due.id == *message && stored.due.redelivery == 0)
                    .ok_or_else(none)?,
            );
        }
        Ok(found)
    }

    /// Delivers messages again, in their order, to an endpoint that is enabled for it where it is not. Those that are, without those
    /// that were delivered again as often as may be. Where more waits for a disabled endpoint than is counted, it is enabled and
    /// takes that alone.
    ///
    /// # Errors
    /// [`RedeliveryError`]. Some may be under way then; asking again is harmless.
    pub async fn redeliver(
        &self,
        webhook: &Arc<Webhook>,
        messages: Vec<StoredDue>,
    ) -> Result<Vec<StoredDue>, RedeliveryError> {
        let is_full = self.state(Arc::clone(webhook)).await?.waiting_more;
        if is_full && webhook.disabled.is_none() {
            return Err(RedeliveryError::QueueFull);
        }
        let (asked, mut again) = (messages.len(), Vec::with_capacity(messages.len()));
        for message in messages {
            if !is_full && self.deliveries.enqueue_again(&webhook.id, &message.due).await? {
                again.push(message);
            }
        }
        if asked > 0 && again.is_empty() && webhook.disabled.is_none() {
            return Err(RedeliveryError::TooOften);
        }
        let entry = Entry::Enabled { at: Utc::now() };
        self.registry.change(&webhook.id, &entry, |webhook| webhook.disabled.is_none()).await?;
        Ok(again)
    }
}
