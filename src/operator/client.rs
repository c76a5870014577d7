//! Operator client: sends a question to one or all gateways over NATS and collects their answers.

use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber, connection::State};
use futures::StreamExt;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    answers::{Answers, Known, Unreadable, read},
    wire::{self, REPLY_PREFIX, Reply, Status, Verb},
};

/// Longest wait for the first answer.
const FIRST_WAIT_MAX: Duration = Duration::from_secs(5);
/// Silence after which all who will answer have answered.
const QUIET: Duration = Duration::from_millis(1_000);
/// How often a lost connection is looked at again.
const CONNECTION_POLL: Duration = Duration::from_millis(20);
/// Most answers that are taken.
const ANSWERS_MAX: usize = 1_000;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// NATS does not take the question.
    #[error("NATS: {0}")]
    Nats(String),
    /// Nobody is there.
    #[error("no gateway answers{}", to_the_name(.0.as_deref()))]
    Nobody(Option<String>),
    /// Who was told to do something may have done it, and has not said so.
    #[error("whether it was done is not known: {0}")]
    Unclear(String),
}

fn to_the_name(name: Option<&str>) -> String {
    name.map(|name| format!(" to the name `{name}`")).unwrap_or_default()
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

    /// The name of one gateway.
    fn name(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::One(name) => Some(name.clone()),
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

    /// Asks, and gathers the answers until all who are there have had time to give one; sorted by name. One that cannot be
    /// read is an error of the gateway that gave it.
    ///
    /// # Errors
    /// [`Error::Nats`] or [`Error::Nobody`].
    pub async fn ask<T: DeserializeOwned>(&self, target: &Target, verb: Verb) -> Result<Vec<Reply<T>>, Error> {
        match self.gather(target, verb).await? {
            Heard::Answers(messages) => {
                let read = |message: &Message| read(&message.payload).unwrap_or_else(Unreadable::into_reply);
                let mut replies: Vec<Reply<T>> = messages.iter().map(read).collect();
                replies.sort_by(|a, b| a.gateway.cmp(&b.gateway));
                Ok(replies)
            }
            Heard::NobodyThere | Heard::Nothing => Err(Error::Nobody(target.name())),
            Heard::Unsent(reason) => Err(Error::Nats(reason)),
        }
    }

    /// Has one gateway or all do something. Of all, those that are `known` to be there are missed where they do not
    /// answer.
    ///
    /// # Errors
    /// [`Error::Nats`] or [`Error::Nobody`], where nobody was told, or [`Error::Unclear`].
    pub async fn order<T: DeserializeOwned>(
        &self,
        target: &Target,
        verb: Verb,
        known: &Known,
    ) -> Result<Answers<T>, Error> {
        match self.gather(target, verb).await? {
            Heard::Answers(messages) => {
                let replies = messages.iter().map(|message| read(&message.payload)).collect();
                Ok(match target {
                    Target::All => Answers::new(replies, known),
                    Target::One(_) => Answers::new(replies, &Known::default()),
                })
            }
            Heard::NobodyThere => Err(Error::Nobody(target.name())),
            Heard::Nothing => {
                let whom = to_the_name(target.name().as_deref());
                Err(Error::Unclear(format!("no gateway answers{whom} in time")))
            }
            Heard::Unsent(reason) => Err(Error::Unclear(format!("NATS: {reason}"))),
        }
    }

    /// The gateways that answer now; nobody where none does.
    pub async fn known(&self) -> Known {
        let answering = self.ask::<Status>(&Target::All, Verb::Status).await.unwrap_or_default();
        Known::answering(answering.into_iter().map(|reply| reply.gateway))
    }

    /// What is heard in answer to a question, or an order.
    ///
    /// # Errors
    /// [`Error::Nats`], where it was not sent.
    async fn gather(&self, target: &Target, verb: Verb) -> Result<Heard, Error> {
        // Without a connection it would wait in the client, and be sent long after everybody has given up.
        let until = Instant::now() + FIRST_WAIT_MAX;
        while self.client.connection_state() != State::Connected {
            if Instant::now() >= until {
                return Err(Error::Nats("no connection".to_owned()));
            }
            sleep(CONNECTION_POLL).await;
        }
        let inbox = format!("{REPLY_PREFIX}{}", events::CommitId::random());
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(nats)?;
        let subject = wire::subject(target.name().as_deref().unwrap_or(wire::ALL), verb);
        self.client.publish_with_reply(subject, inbox, "{}".into()).await.map_err(nats)?;
        match timeout(FIRST_WAIT_MAX, self.client.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Ok(Heard::Unsent(error.to_string())),
            Err(_) => return Ok(Heard::Unsent("it takes no message in time".to_owned())),
        }
        let mut messages = Vec::new();
        let mut deadline = Instant::now() + FIRST_WAIT_MAX;
        while messages.len() < ANSWERS_MAX
            && let Some(answer) = next(&mut answers, deadline).await
        {
            if answer.status == Some(StatusCode::NO_RESPONDERS) && messages.is_empty() {
                return Ok(Heard::NobodyThere);
            }
            messages.push(answer);
            // Names are given once, but nothing enforces it.
            deadline = Instant::now() + QUIET;
        }
        Ok(if messages.is_empty() { Heard::Nothing } else { Heard::Answers(messages) })
    }
}

/// What is heard of those who were asked.
enum Heard {
    /// At least one answer.
    Answers(Vec<Message>),
    /// Nobody listens, says the server.
    NobodyThere,
    /// Nothing, in time.
    Nothing,
    /// It may not have been sent yet.
    Unsent(String),
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
