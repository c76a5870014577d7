//! A webhook as its owner is shown it, made by pure functions.

use std::sync::Arc;

use ::webhooks::{
    deliveries::StoredDue,
    desk::{Desk, State},
    queue::DeadLetter,
    signature::PublicKey,
    webhook::{Scope, Webhook},
};
use schemars::JsonSchema;
use serde::Serialize;

use events::{PaymentId, time::Timestamp};

use crate::views::payment_body::date_time;

/// A key that messages are verified with.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookKey")]
pub struct KeyBody {
    /// `whpk_` and the Base64 of an Ed25519 public key: for signatures `v1a`.
    public_key: String,
    /// The same key as a `did:key`.
    did: String,
}

/// The keys that messages are signed with, the current one first. Several while a key is rotated: then each message has a signature
/// of each.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookKeys")]
pub struct KeysBody {
    /// The keys.
    keys: Vec<KeyBody>,
}

impl KeysBody {
    pub(super) fn new(keys: Vec<PublicKey>) -> Self {
        let key = |key: PublicKey| KeyBody { public_key: key.public_key, did: key.did.to_string() };
        Self { keys: keys.into_iter().map(key).collect() }
    }
}

/// Why nothing is delivered to a webhook any more.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookDisabled")]
pub struct DisabledBody {
    /// Since when.
    #[schemars(with = "Timestamp")]
    at: String,
    /// Why, for people.
    reason: String,
}

/// What a webhook is.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookSummary")]
pub struct SummaryBody {
    /// Its id.
    id: String,
    /// Where it is called.
    url: String,
    /// Whose payments it hears of: the DID, or the account behind its namespace.
    owner: String,
    /// The one payment that it hears of. Absent where it hears of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_id: Option<PaymentId>,
    /// What it hears of them. Absent for everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<&'static str>,
    /// When it was registered. It hears of what happens from then on.
    #[schemars(with = "Timestamp")]
    registered_at: String,
    /// Why nothing is delivered to it. Absent while it is. What happens meanwhile waits; `redeliver` enables it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled: Option<DisabledBody>,
}

impl SummaryBody {
    fn new(webhook: &Webhook) -> Self {
        let registration = &webhook.registration;
        let payment_id = match &registration.scope {
            Scope::Owner => None,
            Scope::Payment(payment_id) => Some(payment_id.clone()),
        };
        let disabled = webhook.disabled.as_ref();
        Self {
            id: webhook.id.to_string(),
            url: registration.url.clone(),
            owner: registration.owner.originator.clone(),
            payment_id,
            events: registration.events.iter().map(|kind| kind.as_str()).collect(),
            registered_at: date_time(webhook.registered_at),
            disabled: disabled
                .map(|disabled| DisabledBody { at: date_time(disabled.at), reason: disabled.reason.clone() }),
        }
    }
}

/// A webhook that was registered.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RegisteredWebhook")]
pub struct RegisteredBody {
    #[serde(flatten)]
    summary: SummaryBody,
    /// `whsec_` and Base64: for signatures `v1`. Whoever has it can make them for this webhook, so keep it secret. It is shown to
    /// the owner again whenever he asks for the webhook.
    secret: String,
    /// The keys for signatures `v1a`.
    keys: Vec<KeyBody>,
}

impl RegisteredBody {
    pub(super) fn new(webhook: &Webhook, desk: &Desk) -> Self {
        let KeysBody { keys } = KeysBody::new(desk.public_keys());
        Self { secret: desk.secret(&webhook.id), summary: SummaryBody::new(webhook), keys }
    }
}

/// The caller's webhooks.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Webhooks")]
pub struct WebhooksBody {
    /// The webhooks, by id.
    webhooks: Vec<SummaryBody>,
    /// The keys for signatures `v1a`.
    keys: Vec<KeyBody>,
}

impl WebhooksBody {
    pub(super) fn new<'a>(webhooks: impl Iterator<Item = &'a Arc<Webhook>>, desk: &Desk) -> Self {
        let KeysBody { keys } = KeysBody::new(desk.public_keys());
        Self { webhooks: webhooks.map(|webhook| SummaryBody::new(webhook)).collect(), keys }
    }
}

/// A message that was given up.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookDeadLetter")]
pub struct DeadLetterBody {
    /// Its `webhook-id`.
    message_id: String,
    /// The payment that it is about.
    payment_id: PaymentId,
    /// What it says.
    #[serde(rename = "type")]
    kind: &'static str,
    /// When that happened.
    #[schemars(with = "Timestamp")]
    occurred_at: String,
    /// When it was given up.
    #[schemars(with = "Timestamp")]
    given_up_at: String,
    /// How often it was attempted.
    attempts: u64,
    /// What the endpoint answered last, for people.
    error: String,
}

impl DeadLetterBody {
    fn new(letter: &DeadLetter) -> Self {
        Self {
            message_id: letter.id.to_string(),
            payment_id: letter.payment_id.clone(),
            kind: letter.kind.as_str(),
            occurred_at: date_time(letter.occurred_at),
            given_up_at: date_time(letter.at),
            attempts: u64::from(letter.attempts),
            error: letter.error.clone(),
        }
    }
}

/// What an endpoint answered to the last attempt that failed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookError")]
pub struct LastErrorBody {
    /// When.
    #[schemars(with = "Timestamp")]
    at: String,
    /// What, for people.
    error: String,
}

/// How the endpoint of a webhook does.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookHealth")]
pub struct HealthBody {
    /// Messages that it took.
    delivered: u64,
    /// Messages that wait for it.
    waiting: u64,
    /// Whether more wait than `waiting` says.
    more_waiting: bool,
    /// When it took one last. Absent while it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    last_success_at: Option<String>,
    /// The last attempt that failed. Absent while none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<LastErrorBody>,
    /// Since when it takes nothing. Absent while it does. After three days the webhook is disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    failing_since: Option<String>,
    /// The messages that were given up and not asked for again, the newest last.
    dead_letters: Vec<DeadLetterBody>,
    /// How many older ones there are besides.
    more_dead_letters: u64,
}

/// A webhook, and how its endpoint does.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Webhook")]
pub struct WebhookBody {
    #[serde(flatten)]
    registered: RegisteredBody,
    /// How its endpoint does.
    deliveries: HealthBody,
}

impl WebhookBody {
    pub(super) fn new(state: &State, desk: &Desk) -> Self {
        let health = &state.health;
        let last_error = health.last_error.as_ref();
        Self {
            registered: RegisteredBody::new(&state.webhook, desk),
            deliveries: HealthBody {
                delivered: health.delivered,
                waiting: state.waiting as u64,
                more_waiting: state.waiting_more,
                last_success_at: health.last_success_at.map(date_time),
                last_error: last_error.map(|last| LastErrorBody { at: date_time(last.at), error: last.error.clone() }),
                failing_since: health.failing_since.map(date_time),
                dead_letters: state.dead.iter().map(DeadLetterBody::new).collect(),
                more_dead_letters: state.dead_more,
            },
        }
    }
}

/// A webhook that was deleted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedWebhook")]
pub struct DeletedBody {
    /// Its id.
    pub id: String,
}

/// The messages that are delivered again.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WebhookRedelivery")]
pub struct RedeliveryBody {
    /// Each by its `webhook-id`, which is the one that it had.
    message_ids: Vec<String>,
}

impl RedeliveryBody {
    pub(super) fn new(messages: &[StoredDue]) -> Self {
        Self { message_ids: messages.iter().map(|message| message.due.id.to_string()).collect() }
    }
}
