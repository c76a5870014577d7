//! Puts the messages of a copy back into streams that a restore has made anew (ADR 136).
//!
//! A stream that keeps everything for ever gets its messages in their order and under their sequences: commits, marks and
//! checkpoints name them. One that keeps the newest of each subject gets them under new ones. Each message says when it was
//! stored first. Both ways can be stopped anywhere and gone on with: what is there is held against the copy.
//!
//! A copy may have been in anybody's hands. It is published with the gateways' own permissions, so only what the stream takes is:
//! a request to the server, or a header that it acts on, is refused.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use async_nats::{Client, HeaderMap, HeaderName, HeaderValue};
use chrono::SecondsFormat;
use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::{
    raw::{RawMessage, RawReader, Unavailable},
    requests::{self, EXPECTED_SEQUENCE, MESSAGE_ID, Pick, Published, PublishedBatch, Ready, STORED_AT, Stored},
};

/// Most messages of one atomic batch, and most of their bytes.
const BATCH_MESSAGES: usize = 128;
const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// How many subjects are filled at a time where the order between them does not matter.
const SUBJECTS_AT_A_TIME: usize = 32;
/// How long one request may take, and for how long one message is tried.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
const TRIED_MAX: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Headers that the server acts on begin so.
const OF_THE_SERVER: &str = "nats-";
/// Those of them that belong to the first publish alone begin so.
const OF_THE_FIRST_PUBLISH: [&str; 2] = ["Nats-Batch-", "Nats-Expected-"];
const EXPECTED_STREAM: HeaderName = HeaderName::from_static("Nats-Expected-Stream");
const EXPECTED_LAST: HeaderName = HeaderName::from_static("Nats-Expected-Last-Sequence");

/// Why a stream is not filled. What was put into it stays, and the same call goes on from there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server gives no answer, or keeps refusing.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The stream holds something else than the copy: somebody writes into it, or it is not of this journal.
    #[error(
        "{stream} holds something else at {sequence} than the copy: is a gateway running, or is it another journal?"
    )]
    Elsewhere {
        /// The stream.
        stream: String,
        /// The sequence.
        sequence: u64,
    },
    /// A message cannot be stored as it is.
    #[error("message {sequence} of {stream} in the copy cannot be stored: {reason}")]
    Unacceptable {
        /// The stream.
        stream: String,
        /// Its sequence in the copy.
        sequence: u64,
        /// The server's words, or the defect.
        reason: String,
    },
}

/// Fills streams. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Refill {
    client: Client,
    reader: RawReader,
}

/// Fills one stream.
#[derive(Debug, Clone)]
pub struct StreamRefill {
    refill: Refill,
    stream: String,
    /// The subjects that it takes.
    takes: Vec<String>,
}

impl Refill {
    /// Over `client`, which may publish on all subjects of the gateways.
    pub fn new(client: Client) -> Self {
        Self { reader: RawReader::new(client.clone(), TRIED_MAX), client }
    }

    /// What fills `stream`, which is there.
    ///
    /// # Errors
    /// [`Unavailable`], also where there is no such stream.
    pub async fn of(&self, stream: &str) -> Result<StreamRefill, Unavailable> {
        let described = self.reader.describe(stream).await?;
        let none = || Unavailable { what: stream.to_owned(), reason: "there is no such stream".to_owned() };
        let takes = described.ok_or_else(none)?.takes;
        Ok(StreamRefill { refill: self.clone(), stream: stream.to_owned(), takes })
    }

    /// Whether the stream holds `message` at its sequence.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn holds(&self, message: &RawMessage) -> Result<bool, Unavailable> {
        let tried_until = Instant::now() + TRIED_MAX;
        loop {
            let pick = Pick::At { seq: message.sequence };
            match requests::leader_get(&self.client, &message.stream, &pick, ATTEMPT_MAX).await {
                Ok(found) => return Ok(found.is_some_and(|found| is_same(&found, message))),
                Err(reason) if Instant::now() >= tried_until => {
                    return Err(Unavailable { what: message.stream.clone(), reason });
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }
}

impl StreamRefill {
    /// Puts `messages` behind the last one of the stream, under their own sequences, which follow each other from the next
    /// one of the stream on. Whatever somebody else stores meanwhile shifts none of them: each is stored only there.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn in_order(&self, messages: &[RawMessage]) -> Result<(), Error> {
        let mut rest = messages;
        let (mut tried_until, mut alone) = (Instant::now() + TRIED_MAX, false);
        while let Some(first) = rest.first() {
            let group = if alone { 1 } else { group(rest) };
            let stored = self.publish(&rest[..group]).await?;
            let last = &rest[group - 1];
            let head = match stored {
                Ok(head) => head,
                // Nothing is known, or it was refused: what is there says which.
                Err(reason) => {
                    let head = self.refill.reader.head(&self.stream).await?;
                    if head + 1 == first.sequence {
                        if Instant::now() >= tried_until {
                            return Err(Error::Unavailable(Unavailable { what: self.stream.clone(), reason }));
                        }
                        // A batch is refused as a whole, whichever of its messages is the reason.
                        alone = true;
                        sleep(RETRY_PAUSE).await;
                        continue;
                    }
                    head
                }
            };
            if head < last.sequence || !self.refill.holds(last).await? {
                return Err(Error::Elsewhere { stream: self.stream.clone(), sequence: last.sequence });
            }
            rest = &rest[group..];
            (tried_until, alone) = (Instant::now() + TRIED_MAX, false);
        }
        Ok(())
    }

    /// Puts `messages`, all that the copy has of the stream, into it under new sequences; those of one subject in their order.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn by_subject(&self, messages: &[RawMessage]) -> Result<(), Error> {
        let mut subjects = BTreeMap::<&str, Vec<&RawMessage>>::new();
        for message in messages {
            subjects.entry(&message.subject).or_default().push(message);
        }
        let filled = stream::iter(subjects.into_values().map(|of_one| self.subject(of_one)));
        filled.buffer_unordered(SUBJECTS_AT_A_TIME).try_collect().await
    }

    async fn subject(&self, messages: Vec<&RawMessage>) -> Result<(), Error> {
        let Some(first) = messages.first() else { return Ok(()) };
        let mut done = self.found(first, &messages).await?;
        let mut tried_until = Instant::now() + TRIED_MAX;
        while let Some(message) = messages.get(done) {
            let Ready { subject, headers, body } = self.ready(message, false)?;
            match requests::publish(&self.refill.client, &subject, headers, body, ATTEMPT_MAX).await {
                Published::Stored { .. } => {
                    done += 1;
                    tried_until = Instant::now() + TRIED_MAX;
                }
                Published::TooLarge(reason) => return Err(unacceptable(message, reason)),
                other => {
                    let before = done;
                    done = self.found(message, &messages).await?;
                    if done == before && Instant::now() >= tried_until {
                        let (what, reason) = (self.stream.clone(), format!("{other:?}"));
                        return Err(Error::Unavailable(Unavailable { what, reason }));
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
        Ok(())
    }

    /// How many of `messages`, of one subject, are in the stream.
    async fn found(&self, of: &RawMessage, messages: &[&RawMessage]) -> Result<usize, Error> {
        let pick = Pick::Last { subject: &of.subject };
        let tried_until = Instant::now() + TRIED_MAX;
        let last = loop {
            match requests::leader_get(&self.refill.client, &self.stream, &pick, ATTEMPT_MAX).await {
                Ok(last) => break last,
                Err(reason) if Instant::now() >= tried_until => {
                    return Err(Error::Unavailable(Unavailable { what: self.stream.clone(), reason }));
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        };
        let Some(last) = last else { return Ok(0) };
        let at = messages.iter().rposition(|message| message.body == last.body);
        at.map(|at| at + 1).ok_or_else(|| Error::Elsewhere { stream: self.stream.clone(), sequence: last.sequence })
    }

    /// The stream's last sequence after this, or why it is not known to be stored.
    async fn publish(&self, messages: &[RawMessage]) -> Result<Result<u64, String>, Error> {
        let mut all: Vec<Ready> = messages.iter().map(|message| self.ready(message, true)).collect::<Result<_, _>>()?;
        let first = &messages[0];
        all[0].headers.insert(EXPECTED_LAST, HeaderValue::from(first.sequence.saturating_sub(1)));
        let client = &self.refill.client;
        if let [Ready { subject, headers, body }] = all.as_slice() {
            let published = requests::publish(client, subject, headers.clone(), body.clone(), ATTEMPT_MAX).await;
            return match published {
                Published::Stored { sequence } => Ok(Ok(sequence)),
                Published::TooLarge(reason) => Err(unacceptable(first, reason)),
                other => Ok(Err(format!("{other:?}"))),
            };
        }
        let count = all.len() as u64;
        Ok(match requests::publish_batch(client, all.into_iter(), ATTEMPT_MAX).await {
            PublishedBatch::Stored { first } => Ok(first + count - 1),
            other => Err(format!("{other:?}")),
        })
    }

    /// The message as it is published again. Under the same sequences what it expected of its subject holds again, and is part of
    /// what readers check.
    fn ready(&self, message: &RawMessage, same_sequence: bool) -> Result<Ready, Error> {
        let subject = &message.subject;
        if message.stream != self.stream || !self.takes.iter().any(|pattern| matches(pattern, subject)) {
            return Err(unacceptable(message, format!("the stream does not take the subject {subject:?}")));
        }
        let mut headers = HeaderMap::new();
        for (name, values) in &message.headers {
            let is_kept = name == MESSAGE_ID || (same_sequence && name == EXPECTED_SEQUENCE);
            if !is_kept && OF_THE_FIRST_PUBLISH.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            if !is_kept && name.to_ascii_lowercase().starts_with(OF_THE_SERVER) {
                return Err(unacceptable(message, format!("the server would act on the header {name:?}")));
            }
            let name: HeaderName = name.parse().map_err(|_| unacceptable(message, format!("header {name:?}")))?;
            for value in values {
                let value: HeaderValue = value.parse().map_err(|_| unacceptable(message, format!("header {name}")))?;
                headers.append(name.clone(), value);
            }
        }
        if headers.get(STORED_AT).is_none() {
            headers.insert(STORED_AT, message.stored_at.to_rfc3339_opts(SecondsFormat::Nanos, true));
        }
        headers.insert(EXPECTED_STREAM, self.stream.as_str());
        Ok(Ready { subject: subject.clone(), headers, body: message.body.clone() })
    }
}

/// Whether a subject without wildcards is one of `pattern`.
fn matches(pattern: &str, subject: &str) -> bool {
    let is_literal = |token: &&str| !token.is_empty() && !token.contains(['*', '>', ' ', '\t', '\r', '\n']);
    let (mut wanted, mut tokens) = (pattern.split('.'), subject.split('.'));
    loop {
        match (wanted.next(), tokens.next()) {
            (None, None) => return true,
            (Some(">"), Some(token)) => return is_literal(&token) && tokens.all(|token| is_literal(&token)),
            (Some(wanted), Some(token)) if is_literal(&token) && (wanted == "*" || wanted == token) => {}
            _ => return false,
        }
    }
}

/// Whether it is the message that a copy has, whenever it was stored.
fn is_same(stored: &Stored, copied: &RawMessage) -> bool {
    let own = stored.headers.get(MESSAGE_ID).map(|value| value.as_str());
    stored.subject == copied.subject && stored.body == copied.body && own == copied.header(MESSAGE_ID)
}

/// How many of the first messages make one batch: each of another subject, because a batch with two of one subject is refused
/// for what the second expects.
fn group(messages: &[RawMessage]) -> usize {
    let (mut subjects, mut bytes, mut count) = (HashSet::new(), 0, 0);
    for message in messages.iter().take(BATCH_MESSAGES) {
        bytes += message.body.len() + 1024;
        if bytes > BATCH_BYTES || !subjects.insert(message.subject.as_str()) {
            break;
        }
        count += 1;
    }
    count.max(1)
}

fn unacceptable(message: &RawMessage, reason: impl Into<String>) -> Error {
    Error::Unacceptable { stream: message.stream.clone(), sequence: message.sequence, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u64, subject: &str, headers: &[(&str, &str)]) -> RawMessage {
        RawMessage {
            stream: "EVT_00".into(),
            sequence,
            subject: subject.into(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), vec![(*value).to_owned()])).collect(),
            body: "{}".into(),
            stored_at: "2026-01-02T03:04:05.123456789Z".parse().unwrap(),
        }
    }

    #[test]
    fn a_batch_ends_before_a_second_message_of_a_subject() {
        let of = |subjects: &[&str]| {
            let messages: Vec<_> = subjects.iter().zip(1..).map(|(subject, at)| message(at, subject, &[])).collect();
            group(&messages)
        };
        assert_eq!([of(&["a"]), of(&["a", "b", "a", "c"]), of(&["a", "a"])], [1, 2, 1]);
        let many: Vec<_> = (1..=200).map(|at| message(at, &format!("s{at}"), &[])).collect();
        assert_eq!(group(&many), BATCH_MESSAGES);
    }

    fn of(takes: &str) -> StreamRefill {
        let (stream, takes) = ("EVT_00".to_owned(), vec![takes.to_owned()]);
        let client = async_nats::ConnectOptions::new().retry_on_initial_connect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(client.connect("nats://127.0.0.1:1")).unwrap();
        StreamRefill { refill: Refill::new(client), stream, takes }
    }

    #[test]
    fn what_belonged_to_the_first_publish_is_left_out_and_the_first_time_is_kept() {
        let first = [
            ("Nats-Batch-Id", "b"),
            ("Nats-Batch-Commit", "1"),
            ("Nats-Msg-Id", "cmt"),
            ("Nats-Expected-Last-Subject-Sequence", "3"),
            ("Nats-Expected-Last-Sequence", "6"),
        ];
        let own = of("gw.evt.00.*");
        let names = |same| -> Vec<String> {
            let ready = own.ready(&message(7, "gw.evt.00.a", &first), same).unwrap();
            let mut names: Vec<_> = ready.headers.iter().map(|(name, _)| name.to_string()).collect();
            names.sort();
            names
        };
        let [at, subject, stream, id] =
            ["Gw-Stored-At", "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Stream", "Nats-Msg-Id"];
        assert_eq!(names(true), [at, subject, stream, id]);
        assert_eq!(names(false), [at, stream, id]);
        let again = message(7, "gw.evt.00.a", &[("Gw-Stored-At", "2025-01-01T00:00:00Z")]);
        let headers = own.ready(&again, true).unwrap().headers;
        assert_eq!(headers.get(STORED_AT).unwrap().as_str(), "2025-01-01T00:00:00Z", "of the first restore");
    }

    #[test]
    fn a_copy_cannot_have_the_gateways_permissions_do_anything_else() {
        let own = of("gw.evt.00.*");
        let acted_on = [("Nats-Rollup", "all"), ("nats-ttl", "1s"), ("Nats-Schedule", "@every 1s")];
        for header in acted_on {
            assert!(matches!(own.ready(&message(1, "gw.evt.00.a", &[header]), true), Err(Error::Unacceptable { .. })));
        }
        for subject in
            ["$JS.API.STREAM.DELETE.EVT_00", "gw.evt.01.a", "gw.evt.00.*", "gw.evt.00", "gw.evt.00.a b", "gw.evt.00."]
        {
            assert!(matches!(own.ready(&message(1, subject, &[]), true), Err(Error::Unacceptable { .. })), "{subject}");
        }
        let other = RawMessage { stream: "EVT_01".into(), ..message(1, "gw.evt.00.a", &[]) };
        assert!(own.ready(&other, true).is_err());
        assert!(
            matches("a.>", "a.b.c") && !matches("a.>", "a") && !matches("a.>", "a.b.") && matches("a.*.c", "a.b.c")
        );
    }
}
