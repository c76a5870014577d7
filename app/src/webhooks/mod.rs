//! Webhooks: what an owner of payments registers, is shown, deletes and has delivered again. How messages are delivered is the
//! matter of the crate `webhooks`; [`bodies`] makes what they say.

pub mod bodies;
pub mod body;

use std::{sync::Arc, time::Duration};

use ::webhooks::{
    desk::{Desk, RedeliveryError, Selection, State},
    message::MessageId,
    records,
    registry::Refusal,
    webhook::{EventType, Registration, Scope, Webhook, WebhookId, WebhookOwner},
};
use serde_json::Value;

use events::{PaymentId, time::Timestamp};
use net::callers::{Caller, Kind, price};

pub use self::body::{DeletedBody, KeysBody, RedeliveryBody, RegisteredBody, WebhookBody, WebhooksBody};
use crate::{
    App,
    error::{Code, Error},
    own_payments::{Asked, query::Filter},
    request::{
        body::JsonBody,
        fields::{Faults, Object, date_time},
    },
    resolve,
    sessions::Owner,
};

/// Longest URL of an endpoint, in bytes.
pub const URL_BYTES_MAX: usize = ::webhooks::http::URL_BYTES_MAX;
/// Messages that one call has delivered again at most.
pub const REDELIVERED_MAX: usize = 100;
/// When a caller may ask again who has more waiting than is counted.
const QUEUE_FULL_SECONDS: u64 = 60;

/// The names of all types of messages.
pub fn event_types() -> [&'static str; 4] {
    EventType::ALL.map(EventType::as_str)
}

fn desk(state: &App) -> Result<&Desk, Error> {
    state.services.webhooks.as_ref().ok_or_else(|| Code::WEBHOOKS_NOT_SERVED.into())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::INVALID_REQUEST, message)
}

fn unavailable(error: &records::Error) -> Error {
    match error {
        records::Error::Unreadable(reason) => {
            tracing::error!(reason, "webhooks cannot be read");
            Code::INTERNAL_ERROR.into()
        }
        other => {
            tracing::warn!(error = %other, "webhooks are unavailable");
            Code::SERVICE_UNAVAILABLE.into()
        }
    }
}

fn refused(refusal: &Refusal) -> Error {
    match refusal {
        Refusal::OwnerFull(_) | Refusal::Full | Refusal::NoPayment => {
            Error::new(Code::TOO_MANY_WEBHOOKS, refusal.to_string())
        }
        Refusal::Unknown => Code::WEBHOOK_NOT_FOUND.into(),
        Refusal::Store(error) => unavailable(error),
    }
}

fn owner_of(owner: &Owner) -> WebhookOwner {
    WebhookOwner { originator: owner.originator(), chain: owner.chain().cloned() }
}

/// The owner's webhook with this id. One that a session for all chains has registered is not of a session for one chain.
async fn own(desk: &Desk, owner: &Owner, id: &str) -> Result<Arc<Webhook>, Error> {
    let id: WebhookId = id.parse().map_err(|_| Code::WEBHOOK_NOT_FOUND)?;
    let webhook = desk.find(&id, Some(&owner.originator())).await.map_err(|refusal| refused(&refusal))?;
    if is_theirs(owner, &webhook) { Ok(webhook) } else { Err(Code::WEBHOOK_NOT_FOUND.into()) }
}

fn is_theirs(owner: &Owner, webhook: &Webhook) -> bool {
    owner.chain().is_none_or(|chain| webhook.registration.owner.chain.as_ref() == Some(chain))
}

/// The keys that receivers verify with.
///
/// # Errors
/// 404 `WEBHOOKS_NOT_SERVED`.
pub fn keys(state: &App) -> Result<KeysBody, Error> {
    Ok(KeysBody::new(desk(state)?.public_keys()))
}

/// Registers an endpoint.
///
/// # Errors
/// 400, 404 `PAYMENT_NOT_FOUND` for a payment that is not the owner's, 409 `TOO_MANY_WEBHOOKS`, 503.
pub async fn register(state: &App, owner: &Owner, body: &JsonBody) -> Result<RegisteredBody, Error> {
    let desk = desk(state)?;
    let (mut faults, root) = (Faults::default(), Object::root(&body.members));
    let url = root.required::<&str>("url", &mut faults);
    let payment_id = root.optional::<&str>("payment_id", &mut faults);
    let events = events(&root, &mut faults);
    let scope = match payment_id.map(str::parse::<PaymentId>) {
        None => Scope::Owner,
        Some(Ok(payment_id)) => Scope::Payment(payment_id),
        Some(Err(rule)) => {
            faults.invalid("payment_id", rule);
            Scope::Owner
        }
    };
    let url = faults.or(url)?;
    if let Scope::Payment(payment_id) = &scope {
        let view = resolve::find(state, payment_id).await?;
        if !owner.owns(&view) {
            return Err(Code::PAYMENT_NOT_FOUND.into());
        }
    }
    let url = desk.check_url(url, &owner.originator()).await.map_err(|rule| invalid(format!("url: {rule}")))?;
    // A payment that it is for is the owner's; otherwise it is looked up only where it counts.
    let has_payment = scope != Scope::Owner
        || desk.is_scarce().await.map_err(|error| unavailable(&error))? && has_payment(state, owner).await?;
    let registration = Registration { owner: owner_of(owner), url, scope, events };
    let webhook = desk.register(registration, has_payment).await.map_err(|refusal| refused(&refusal))?;
    Ok(RegisteredBody::new(&webhook, desk))
}

/// Whether a payment of the owner was ever accepted.
async fn has_payment(state: &App, owner: &Owner) -> Result<bool, Error> {
    let asked = Asked {
        owner: owner.clone(),
        filter: Filter::default(),
        before: None,
        payments_max: 1,
        now: state.services.clock.now(),
        grace: Duration::ZERO,
    };
    Ok(!state.services.owned_payments.page(asked).await?.payments.is_empty())
}

fn events(root: &Object<'_>, faults: &mut Faults) -> Vec<EventType> {
    let Some(names) = root.optional::<&Vec<Value>>("events", faults) else { return Vec::new() };
    let mut events: Vec<EventType> = names.iter().filter_map(|name| EventType::of(name.as_str()?)).collect();
    if events.len() != names.len() || names.is_empty() {
        faults.invalid("events", format!("must be one or more of {}", event_types().join(", ")));
    }
    events.sort_unstable();
    events.dedup();
    events
}

/// The owner's webhooks.
///
/// # Errors
/// 404 `WEBHOOKS_NOT_SERVED`, 503.
pub async fn list(state: &App, owner: &Owner) -> Result<WebhooksBody, Error> {
    let desk = desk(state)?;
    let webhooks = desk.of_owner(&owner.originator()).await.map_err(|error| unavailable(&error))?;
    Ok(WebhooksBody::new(webhooks.iter().filter(|webhook| is_theirs(owner, webhook)), desk))
}

/// How one of the owner's webhooks stands.
///
/// # Errors
/// 404, 503.
pub async fn show(state: &App, owner: &Owner, id: &str) -> Result<WebhookBody, Error> {
    let desk = desk(state)?;
    let webhook = own(desk, owner, id).await?;
    let stands: State = desk.state(webhook).await.map_err(|refusal| refused(&refusal))?;
    Ok(WebhookBody::new(&stands, desk))
}

/// Deletes one of the owner's webhooks.
///
/// # Errors
/// 404, 503.
pub async fn delete(state: &App, owner: &Owner, id: &str) -> Result<DeletedBody, Error> {
    let desk = desk(state)?;
    let webhook = own(desk, owner, id).await?;
    desk.delete(&webhook.id).await.map_err(|refusal| refused(&refusal))?;
    Ok(DeletedBody { id: webhook.id.to_string() })
}

/// Has messages delivered again. Each costs the caller what a write does.
///
/// # Errors
/// 400, 404, 429, 503.
pub async fn redeliver(
    state: &App,
    caller: &Caller,
    owner: &Owner,
    id: &str,
    body: &JsonBody,
) -> Result<RedeliveryBody, Error> {
    let desk = desk(state)?;
    let selection = selection(&Object::root(&body.members))?;
    let webhook = own(desk, owner, id).await?;
    let messages = desk.select(&webhook, &selection, REDELIVERED_MAX).await.map_err(|error| unselected(&error))?;
    let count = u32::try_from(messages.len()).unwrap_or(u32::MAX);
    caller.spend(Kind::Unsigned, price::WRITE.saturating_mul(count))?;
    let again = desk.redeliver(&webhook, messages).await.map_err(|error| unselected(&error))?;
    Ok(RedeliveryBody::new(&again))
}

fn unselected(error: &RedeliveryError) -> Error {
    match error {
        RedeliveryError::NoMessage(_)
        | RedeliveryError::TooMany(_)
        | RedeliveryError::TooLong
        | RedeliveryError::TooOften => invalid(error.to_string()),
        RedeliveryError::QueueFull => Error::new(Code::RATE_LIMITED, error.to_string()).after(QUEUE_FULL_SECONDS),
        RedeliveryError::Refused(refusal) => refused(refusal),
    }
}

fn selection(root: &Object<'_>) -> Result<Selection, Error> {
    let mut faults = Faults::default();
    let payment_id = root.optional::<&str>("payment_id", &mut faults);
    let ids = root.optional::<&Vec<Value>>("message_ids", &mut faults);
    let (from, until) = (root.optional::<&str>("from", &mut faults), root.optional::<&str>("to", &mut faults));
    let dead = root.optional::<bool>("dead", &mut faults);
    let (payment_id, ids, from, until, dead) = faults.or(Some((payment_id, ids, from, until, dead)))?;
    match (payment_id, ids, from, until, dead) {
        (Some(payment_id), None, None, None, None) => {
            payment_id.parse().map(Selection::Payment).map_err(|rule| invalid(format!("payment_id: {rule}")))
        }
        (None, Some(ids), None, None, None) => {
            let read = |id: &Value| id.as_str().and_then(|id| id.parse::<MessageId>().ok());
            let read: Option<Vec<_>> = ids.iter().map(read).collect();
            let read = read.filter(|ids| (1..=REDELIVERED_MAX).contains(&ids.len()));
            read.map(Selection::Messages)
                .ok_or_else(|| invalid(format!("message_ids: must be 1 to {REDELIVERED_MAX} values of `webhook-id`")))
        }
        (None, None, Some(from), Some(until), None) => {
            let time = |name: &str, text: &str| -> Result<Timestamp, Error> {
                date_time(text).map_err(|rule| invalid(format!("{name}: {rule}")))
            };
            Ok(Selection::Between(time("from", from)?, time("to", until)?))
        }
        (None, None, None, None, Some(true)) => Ok(Selection::Dead),
        _ => Err(invalid(
            "exactly one must be given: payment_id, message_ids, from with to, or dead, which must be true",
        )),
    }
}
