//! A webhook: who hears of which payments, and where.

use std::{fmt, str::FromStr};

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use events::{ChainId, PaymentId, time::Timestamp};
use projections::{PaymentStatus, PaymentView};

const PREFIX: &str = "whk_";
/// Characters of 16 bytes in unpadded Base32.
const CHARS: usize = 26;
const ID_BYTES: usize = 16;

/// Id of a webhook. It is random, so that nobody names a webhook before its owner does.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookId(String);

/// The text is not the id of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be `whk_` followed by 26 characters of lower-case base32")]
pub struct InvalidWebhookId;

impl WebhookId {
    /// A new one.
    pub fn random() -> Self {
        let bytes: [u8; ID_BYTES] = rand::random();
        Self(format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_ascii_lowercase()))
    }

    /// The id as text, which is one token of a NATS subject.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The partition, of `partitions`, whose owner delivers to it; stable for ever.
    pub fn partition(&self, partitions: u16) -> u16 {
        let digest = events::Hash32::sha256(&self.0).0;
        let number = u16::from_be_bytes([digest[0], digest[1]]);
        number % partitions.max(1)
    }
}

impl FromStr for WebhookId {
    type Err = InvalidWebhookId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |c: u8| c.is_ascii_lowercase() || (b'2'..=b'7').contains(&c);
        let digits = text.strip_prefix(PREFIX).filter(|digits| digits.len() == CHARS && digits.bytes().all(legal));
        digits.map(|_| Self(text.to_owned())).ok_or(InvalidWebhookId)
    }
}

impl fmt::Display for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WebhookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for WebhookId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WebhookId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What a message tells: that a payment came to this status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum EventType {
    /// Accepted, or on its way again after its delivery vanished from its chain.
    #[serde(rename = "payment.pending")]
    Pending,
    /// The delivery is on chain.
    #[serde(rename = "payment.finalizing")]
    Finalizing,
    /// Delivered at the required depth.
    #[serde(rename = "payment.completed")]
    Completed,
    /// Did not complete.
    #[serde(rename = "payment.failed")]
    Failed,
}

impl EventType {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Finalizing, Self::Completed, Self::Failed];

    /// The name, as `type` of a message has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "payment.pending",
            Self::Finalizing => "payment.finalizing",
            Self::Completed => "payment.completed",
            Self::Failed => "payment.failed",
        }
    }

    /// The type of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl From<PaymentStatus> for EventType {
    fn from(status: PaymentStatus) -> Self {
        match status {
            PaymentStatus::Pending => Self::Pending,
            PaymentStatus::Finalizing => Self::Finalizing,
            PaymentStatus::Completed => Self::Completed,
            PaymentStatus::Failed => Self::Failed,
        }
    }
}

/// Whose a webhook is: an account or a DID, as payments name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WebhookOwner {
    /// The originator as it is stored.
    pub originator: String,
    /// The one chain on which an account that is a contract has proven itself; `None` where it counts on all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainId>,
}

impl WebhookOwner {
    /// Whether the payment is his.
    pub fn owns(&self, payment: &PaymentView) -> bool {
        let here = self.chain.as_ref().is_none_or(|chain| payment.source.asset().chain() == chain);
        here && payment.belongs_to(&self.originator)
    }
}

/// Which payments a webhook hears of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All of its owner.
    Owner,
    /// One of its owner.
    Payment(PaymentId),
}

/// What a webhook is registered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Whose it is.
    pub owner: WebhookOwner,
    /// Where it is called.
    pub url: String,
    /// Which payments it hears of.
    pub scope: Scope,
    /// What it hears of them; empty for everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventType>,
}

/// Why nothing is delivered to a webhook any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    /// Since when.
    pub at: Timestamp,
    /// Why, for people.
    pub reason: String,
}

/// An entry in a webhook's history, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// It begins.
    Registered(Registration),
    /// Its endpoint failed for too long, or said that it is gone.
    Disabled(Disabled),
    /// It is delivered to again.
    Enabled {
        /// When.
        at: Timestamp,
    },
    /// Its owner wants it no more. Nothing follows.
    Deleted {
        /// When.
        at: Timestamp,
    },
}

/// A webhook: a fold over its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// What it is registered with.
    pub registration: Registration,
    /// When its registration was stored.
    pub registered_at: Timestamp,
    /// Why nothing is delivered to it.
    pub disabled: Option<Disabled>,
    /// When it was enabled last.
    pub enabled_at: Option<Timestamp>,
    /// When it was deleted.
    pub deleted_at: Option<Timestamp>,
    /// Sequence of its last entry.
    pub sequence: u64,
}

impl Webhook {
    /// The webhook after its first entry; `None` when this is not one.
    pub fn begin(id: WebhookId, sequence: u64, stored_at: Timestamp, entry: Entry) -> Option<Self> {
        let Entry::Registered(registration) = entry else { return None };
        Some(Self {
            id,
            registration,
            registered_at: stored_at,
            disabled: None,
            enabled_at: None,
            deleted_at: None,
            sequence,
        })
    }

    /// Takes in an entry. One at or below the webhook's sequence is skipped, so that repeating is harmless.
    pub fn apply(&mut self, sequence: u64, entry: Entry) {
        if sequence <= self.sequence || self.deleted_at.is_some() {
            return;
        }
        self.sequence = sequence;
        match entry {
            Entry::Registered(_) => {}
            Entry::Disabled(disabled) => self.disabled = Some(disabled),
            Entry::Enabled { at } => {
                self.disabled = None;
                self.enabled_at = Some(at);
            }
            Entry::Deleted { at } => self.deleted_at = Some(at),
        }
    }

    /// Whether it hears of this change of `payment`.
    pub fn hears(&self, payment: &PaymentView, kind: EventType) -> bool {
        let Registration { owner, scope, events, .. } = &self.registration;
        let in_scope = match scope {
            Scope::Owner => true,
            Scope::Payment(payment_id) => *payment_id == payment.payment_id,
        };
        self.deleted_at.is_none() && in_scope && owner.owns(payment) && (events.is_empty() || events.contains(&kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        format!("2030-01-01T00:00:{second:02}Z").parse().unwrap()
    }

    fn registration() -> Registration {
        Registration {
            owner: WebhookOwner { originator: "did:web:shop.example".to_owned(), chain: None },
            url: "https://shop.example/hooks".to_owned(),
            scope: Scope::Owner,
            events: vec![EventType::Completed],
        }
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = WebhookId::random();
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_ne!(id, WebhookId::random());
        for bad in
            ["", "whk_", "whk_A", "pay_aaaaaaaaaaaaaaaaaaaaaaaaaa", &format!("{id}a"), &id.as_str().to_uppercase()]
        {
            assert_eq!(bad.parse::<WebhookId>(), Err(InvalidWebhookId), "{bad}");
        }
        assert!((0..200).all(|_| WebhookId::random().partition(8) < 8));
        assert_eq!(id.partition(0), 0);
    }

    #[test]
    fn a_webhook_is_disabled_enabled_and_deleted_once() {
        let id = WebhookId::random();
        assert_eq!(Webhook::begin(id.clone(), 1, at(1), Entry::Deleted { at: at(1) }), None);
        let mut webhook = Webhook::begin(id, 1, at(1), Entry::Registered(registration())).unwrap();
        let disabled = Disabled { at: at(2), reason: "down".to_owned() };
        webhook.apply(2, Entry::Disabled(disabled.clone()));
        webhook.apply(2, Entry::Enabled { at: at(2) });
        assert_eq!(webhook.disabled, Some(disabled));
        webhook.apply(3, Entry::Enabled { at: at(3) });
        assert_eq!((&webhook.disabled, webhook.enabled_at), (&None, Some(at(3))));
        webhook.apply(4, Entry::Deleted { at: at(4) });
        webhook.apply(5, Entry::Enabled { at: at(5) });
        assert_eq!((webhook.deleted_at, webhook.enabled_at, webhook.sequence), (Some(at(4)), Some(at(3)), 4));
    }

    #[test]
    fn entries_are_stored_in_a_form_that_stays() {
        let stored = r#"{"entry":"registered","owner":{"originator":"did:web:shop.example"},"url":"https://shop.example/hooks","scope":"owner","events":["payment.completed"]}"#;
        assert_eq!(serde_json::to_string(&Entry::Registered(registration())).unwrap(), stored);
        assert_eq!(serde_json::from_str::<Entry>(stored).unwrap(), Entry::Registered(registration()));
        let enabled = r#"{"entry":"enabled","at":"2030-01-01T00:00:03Z"}"#;
        assert_eq!(serde_json::from_str::<Entry>(enabled).unwrap(), Entry::Enabled { at: at(3) });
    }
}
