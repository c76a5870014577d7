//! Ports: what the crate asks of others.

use std::collections::BTreeSet;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{message::Due, queue::Answer};

/// A message on its way, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Where to.
    pub url: String,
    /// Whose webhook it is, as payments name him.
    pub originator: String,
    /// `webhook-id`.
    pub id: String,
    /// `webhook-timestamp`: UNIX seconds of this attempt.
    pub timestamp: i64,
    /// `webhook-signature`: one or several, with spaces between.
    pub signature: String,
    /// JSON.
    pub body: Bytes,
}

/// Receivers' endpoints.
#[async_trait]
pub trait Endpoints: Send + Sync {
    /// Calls an endpoint once, in a bounded time.
    async fn call(&self, call: Call) -> Answer;
}

/// Why there is no body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// For now.
    #[error("the payment cannot be read: {0}")]
    Unavailable(String),
    /// For ever.
    #[error("the payment cannot be shown: {0}")]
    Never(String),
}

/// Makes bodies of messages.
#[async_trait]
pub trait Bodies: Send + Sync {
    /// The body of a message: the payment as it was at the commit that the message is about. It is the same whenever it is made.
    ///
    /// # Errors
    /// [`BodyError`].
    async fn body(&self, due: &Due) -> Result<Bytes, BodyError>;
}

/// Which part of the work is this process's.
#[async_trait]
pub trait Ownership: Send + Sync {
    /// The shards that take new commits, in order, and those of them that this process owns. At most one process owns a shard as far
    /// as clocks and network allow.
    ///
    /// # Errors
    /// Why that cannot be said now.
    async fn held(&self) -> Result<Held, String>;
}

/// What a process owns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// The shards that take new commits, in order.
    pub open: Vec<u16>,
    /// Those of them that are this process's.
    pub own: BTreeSet<u16>,
}

impl Held {
    /// Whether part `number` of any number of parts is this process's: parts are dealt out over the open shards.
    pub fn has(&self, number: u16) -> bool {
        let dealt = self.open.get(usize::from(number) % self.open.len().max(1));
        dealt.is_some_and(|shard| self.own.contains(shard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_of_exactly_one_owner() {
        let open = vec![8, 9, 10];
        let one = Held { open: open.clone(), own: BTreeSet::from([8, 10]) };
        let other = Held { open, own: BTreeSet::from([9]) };
        assert!((0..40).all(|number| one.has(number) != other.has(number)));
        assert!(!Held::default().has(0));
    }
}
