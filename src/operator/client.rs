//! Operator client: sends a question to one or all gateways over NATS and collects their answers.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::wire::{self, REPLY_PREFIX, Reply, Verb};

/// Longest wait for the first answer.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(5);
/// Silence after which all who will answer have answered.
const QUIET: Duration = Duration::from_millis(1_000);
/// Most answers that are taken.
const ANSWERS_MAX: usize = 1_000;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// NATS does not take the question.
    #[error("NATS: {0}")]
    Nats(String),
    /// Nobody is there.
    #[error("no gateway answers{}", .0.as_ref().map(|name| format!(" to the name `{name}`")).unwrap_or_default())]
    Nobody(Option<String>),
    /// An answer is none.
    #[error("an answer cannot be read: {0}")]
    Unreadable(String),
}

/// Whom to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Every gateway.
    All,
    /// The gateway of this name.
    One(String),
}

/// The text names no gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a gateway's name has characters of a-z, 0-9, - and _ only")]
pub struct InvalidName;

impl Target {
    /// The gateway of this name, or all of them where there is none.
    ///
    /// # Errors
    /// [`InvalidName`] for what could not be one token of a subject.
    pub fn of(gateway: Option<&str>) -> Result<Self, InvalidName> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        match gateway {
            None => Ok(Self::All),
            Some(name) if !name.is_empty() && name.chars().all(legal) => Ok(Self::One(name.to_owned())),
            Some(_) => Err(InvalidName),
        }
    }
}

/// An operator, on a connection with the gateway's role.
#[derive(Debug, Clone)]
pub struct Operator {
    client: Client,
}

impl Operator {
    /// An operator on this connection.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Asks, and gathers the answers until all who are there have had time to give one; sorted by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ask<T: DeserializeOwned>(&self, target: &Target, verb: Verb) -> Result<Vec<Reply<T>>, Error> {
        let (name, wanted) = match target {
            Target::All => (wire::ALL, None),
            Target::One(name) => (name.as_str(), Some(name.clone())),
        };
        let inbox = format!("{REPLY_PREFIX}{}", events::CommitId::random());
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(nats)?;
        let asked = self.client.publish_with_reply(wire::subject(name, verb), inbox, "{}".into()).await;
        asked.map_err(nats)?;
        self.client.flush().await.map_err(nats)?;
        let mut replies = Vec::new();
        let mut deadline = Instant::now() + FIRST_WAIT_MAX;
        while replies.len() < ANSWERS_MAX
            && let Some(answer) = next(&mut answers, deadline).await
        {
            if answer.status == Some(StatusCode::NO_RESPONDERS) {
                break;
            }
            let reply = serde_json::from_slice::<Reply<T>>(&answer.payload);
            replies.push(reply.map_err(|error| Error::Unreadable(error.to_string()))?);
            // Names are given once, but nothing enforces it.
            deadline = Instant::now() + QUIET;
        }
        if replies.is_empty() {
            return Err(Error::Nobody(wanted));
        }
        replies.sort_by(|a, b| a.gateway.cmp(&b.gateway));
        Ok(replies)
    }
}

async fn next(answers: &mut Subscriber, deadline: Instant) -> Option<Message> {
    timeout_at(deadline, answers.next()).await.ok().flatten()
}

fn nats(error: impl std::fmt::Display) -> Error {
    Error::Nats(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateways_name_is_one_token_of_a_subject() {
        assert_eq!(Target::of(None), Ok(Target::All));
        assert_eq!(Target::of(Some("pay-1_a")), Ok(Target::One("pay-1_a".to_owned())));
        for name in ["", "*", ">", "a.b", "A", "a b", "ä"] {
            assert_eq!(Target::of(Some(name)), Err(InvalidName), "{name}");
        }
    }
}
