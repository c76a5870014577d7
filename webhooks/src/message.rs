//! A message: one change of a payment's status for one webhook, and what became of each attempt to deliver it.

use std::{fmt, str::FromStr};

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use events::{Hash32, PaymentId, time::Timestamp};
use journal::Recorded;

use crate::webhook::{EventType, WebhookId};

const PREFIX: &str = "msg_";
const PAYMENT_PREFIX: &str = "pay_";
/// Characters that tell the message from those of other webhooks about the same commit.
const TAG_CHARS: usize = 10;

/// The `webhook-id` of a message. It is the same for each attempt and each redelivery, so that a receiver drops what it has had
/// already: a function of webhook, payment, and the commit of the payment that the message tells of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(String);

/// The text is not the id of a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a `webhook-id` as the gateway sends it")]
pub struct InvalidMessageId;

impl MessageId {
    /// The id of the message about the commit `commit_id`, the `version`-th of `payment_id`.
    pub fn derive(webhook_id: &WebhookId, payment_id: &PaymentId, version: u64, commit_id: &str) -> Self {
        let of = format!("gw:webhook-message:v1\n{webhook_id}\n{payment_id}\n{version}\n{commit_id}");
        let tag = BASE32_NOPAD.encode(&Hash32::sha256(of).0).to_ascii_lowercase();
        let payment = payment_id.as_str().trim_start_matches(PAYMENT_PREFIX);
        Self(format!("{PREFIX}{payment}_{version}_{}", &tag[..TAG_CHARS]))
    }

    /// The id as text, without a full stop in it, as the specification wants it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The payment that the message is about.
    pub fn payment_id(&self) -> Option<PaymentId> {
        let payment = self.0.strip_prefix(PREFIX)?.split('_').next()?;
        format!("{PAYMENT_PREFIX}{payment}").parse().ok()
    }
}

impl FromStr for MessageId {
    type Err = InvalidMessageId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.strip_prefix(PREFIX).ok_or(InvalidMessageId)?.split('_');
        let (payment, version, tag) = (parts.next(), parts.next(), parts.next());
        let is_tag = |tag: &str| tag.len() == TAG_CHARS && tag.bytes().all(|c| c.is_ascii_alphanumeric());
        let fits = payment.is_some_and(|payment| format!("{PAYMENT_PREFIX}{payment}").parse::<PaymentId>().is_ok())
            && version.is_some_and(|version| version.len() < 20 && version.parse::<u64>().is_ok())
            && tag.is_some_and(is_tag)
            && parts.next().is_none();
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidMessageId) }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A message that is to be delivered, as it is stored. Its body is not: it is made from the payment's commits up to `version`, which
/// nothing changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// Its `webhook-id`.
    pub id: MessageId,
    /// The payment.
    pub payment_id: PaymentId,
    /// Commits of the payment up to the one that it tells of.
    pub version: u64,
    /// That commit.
    pub commit_id: String,
    /// What it tells.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When that commit was stored.
    pub occurred_at: Timestamp,
    /// How often it was asked for again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub redelivery: u32,
    /// Of one that was asked for again: the newest message about the payment when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Newest>,
}

/// Which commit of its payment the newest message is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newest {
    /// Commits of the payment up to it.
    pub version: u64,
    /// That commit.
    pub commit_id: String,
}

impl Due {
    /// The message to `webhook_id` about a commit of a payment.
    pub fn new(webhook_id: &WebhookId, recorded: &Recorded, payment_id: &PaymentId, kind: EventType) -> Self {
        let (version, commit_id) = (recorded.position.version, recorded.commit_id.to_string());
        Self {
            id: MessageId::derive(webhook_id, payment_id, version, &commit_id),
            payment_id: payment_id.clone(),
            version,
            commit_id,
            kind,
            occurred_at: recorded.stored_at,
            redelivery: 0,
            newest: None,
        }
    }

    /// Which commit the newest message about the payment was about when this was put into the queue.
    pub fn newest(&self) -> Newest {
        let own = || Newest { version: self.version, commit_id: self.commit_id.clone() };
        self.newest.clone().unwrap_or_else(own)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What became of an attempt, as it is stored once it has ended. An attempt without one is made again: at least once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The endpoint took the message.
    Delivered {
        /// Sequence of the [`Due`].
        due: u64,
        /// Which attempt, from 1.
        attempt: u32,
        /// When.
        at: Timestamp,
        /// Its HTTP status.
        status: u16,
    },
    /// It did not, and is asked again.
    Refused {
        /// Sequence of the [`Due`].
        due: u64,
        /// Which attempt, from 1.
        attempt: u32,
        /// When.
        at: Timestamp,
        /// What it answered, for people.
        error: String,
        /// Not before then.
        retry_at: Timestamp,
    },
    /// It did not, and is not asked again: a dead letter.
    Dead {
        /// Sequence of the [`Due`].
        due: u64,
        /// Which attempt, from 1; 0 when there was nothing that could be sent.
        attempt: u32,
        /// When.
        at: Timestamp,
        /// What it answered, for people.
        error: String,
    },
}

impl Outcome {
    /// Sequence of the [`Due`] that it is of.
    pub fn due(&self) -> u64 {
        match self {
            Self::Delivered { due, .. } | Self::Refused { due, .. } | Self::Dead { due, .. } => *due,
        }
    }

    /// When the attempt ended.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Delivered { at, .. } | Self::Refused { at, .. } | Self::Dead { at, .. } => *at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payment() -> PaymentId {
        PaymentId::derive("payer", "one")
    }

    #[test]
    fn an_id_follows_from_webhook_payment_and_commit_and_leads_back() {
        let (webhook, other) = (WebhookId::random(), WebhookId::random());
        let (one, two) = ("commit-1", "commit-2");
        let id = MessageId::derive(&webhook, &payment(), 5, one);
        assert_eq!(id, MessageId::derive(&webhook, &payment(), 5, one));
        assert_ne!(id, MessageId::derive(&other, &payment(), 5, one));
        assert_ne!(id, MessageId::derive(&webhook, &payment(), 5, two));
        assert_ne!(id, MessageId::derive(&webhook, &payment(), 6, one));
        assert_eq!(id.payment_id(), Some(payment()));
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert!(!id.as_str().contains('.') && id.as_str().len() < 100, "{id}");
        for bad in [
            "",
            "msg_",
            "msg_x_1_aaaaaaaaaa",
            &format!("{id}_x"),
            &format!("{id}x"),
            &id.as_str().replace("_5_", "_x_"),
        ] {
            assert_eq!(bad.parse::<MessageId>(), Err(InvalidMessageId), "{bad}");
        }
    }

    #[test]
    fn what_is_stored_keeps_its_form() {
        let due = r#"{"id":"msg_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_2_abcdefghij","payment_id":"pay_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","version":2,"commit_id":"cmt_1","type":"payment.failed","occurred_at":"2030-01-01T00:00:00Z"}"#;
        let read: Due = serde_json::from_str(due).unwrap();
        assert_eq!((read.kind, read.version, read.redelivery), (EventType::Failed, 2, 0));
        assert_eq!(serde_json::to_string(&read).unwrap(), due);
        let outcome = r#"{"outcome":"delivered","due":7,"attempt":1,"at":"2030-01-01T00:00:00Z","status":200}"#;
        let read: Outcome = serde_json::from_str(outcome).unwrap();
        assert_eq!((read.due(), serde_json::to_string(&read).unwrap()), (7, outcome.to_owned()));
    }
}
