//! Appending, with every ambiguous acknowledgement resolved.

use std::{sync::Arc, time::Duration};

use chrono::Utc;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use events::mutant;
use journal::{
    AppendError, Commit, Recorded,
    envelope::{self, EncodedCommit, Envelope},
    stream_moved::holds_mark,
};

use super::{Inner, Options};
use crate::requests::{self, Outgoing, Pick, Published, Stored};

/// First pause before the same publish is tried again; doubles up to [`PAUSE_MAX`].
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(10);
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(400);

/// How long one append may try, with everything that belongs to it.
#[derive(Clone, Copy)]
pub(super) struct Time {
    deadline: Instant,
    /// There is more time for finding out what happened than for making it happen.
    pub(super) unstored: Instant,
}

impl Time {
    fn starts(options: &Options) -> Self {
        let started = Instant::now();
        let deadline = started + options.append_timeout;
        Self { deadline, unstored: deadline.min(started + options.unstored_timeout) }
    }

    /// How long one request may take.
    pub(super) fn of_attempt(self, options: &Options) -> Duration {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        remaining.min(options.attempt_timeout).max(PAUSE_MIN)
    }
}

/// What lies directly behind the expected position of a commit. As nothing can ever be taken out of a stream, a message
/// there is final: its writer has won.
enum Successor {
    Mine(Stored),
    Another(Stored),
    /// Nothing yet. This never proves that a publish of ours will not arrive.
    None {
        /// The stream's last sequence is below the expected one.
        is_below_expected: bool,
    },
}

/// The outcome of a commit.
pub(super) enum Placed {
    Mine(Recorded),
    /// It is not stored and never will be: something else lies in its place, unless the stream ends before its place.
    Another(Option<Stored>),
    /// It is not stored and never will be: its place is empty, and the shard is sealed.
    Never,
}

/// Puts a commit into the form in which `shard` holds it.
pub(super) fn encode(commit: &Commit, shard: u16) -> Result<EncodedCommit, AppendError> {
    EncodedCommit::new(commit, shard).map_err(|error| AppendError::Unacceptable(error.to_string()))
}

/// Whether a stored message has the commit's id.
pub(super) fn is_mine(commit: &Commit, stored: &Stored) -> bool {
    stored.headers.get(requests::MESSAGE_ID).is_some_and(|id| id.as_str() == commit.commit_id.as_str())
}

impl Inner {
    pub(super) async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        if holds_mark(commit) {
            return Err(AppendError::Unacceptable("marks are the journal's own".into()));
        }
        let time = Time::starts(&self.options);
        if commit.expected.version == 0 {
            return self.append_first(commit, time).await;
        }
        let shard = commit.expected.shard;
        if !self.known.may_lie_in(shard, &commit.stream_id) {
            let looked = self.look(Instant::now()).await;
            if !self.known.may_lie_in(shard, &commit.stream_id) {
                looked.map_err(AppendError::Unavailable)?;
                return Err(AppendError::Unacceptable("its position never existed".into()));
            }
        }
        match self.attempt(commit, encode(commit, shard)?, time).await? {
            Placed::Mine(recorded) => Ok(recorded),
            Placed::Another(_) => Err(AppendError::Conflict),
            Placed::Never => Err(AppendError::Unacceptable(format!("shard {shard} is sealed"))),
        }
    }

    /// Publishes what `commit` is in one shard until its outcome is known.
    pub(super) async fn attempt(
        &self,
        commit: &Commit,
        encoded: EncodedCommit,
        time: Time,
    ) -> Result<Placed, AppendError> {
        let shard = encoded.shard;
        let pending = self.tails.begin(shard);
        let encoded = Arc::new(encoded);
        let placed = Attempt { journal: self, commit, encoded, time, may_be_stored: false }.run().await?;
        if let Placed::Mine(recorded) = &placed {
            let woken = (!recorded.is_moved()).then_some(&recorded.stream_id);
            pending.stored(recorded.position.sequence, woken);
            self.head_cache.appended(&self.client, shard, recorded.position.sequence);
        }
        Ok(placed)
    }
}

struct Attempt<'a> {
    journal: &'a Inner,
    commit: &'a Commit,
    encoded: Arc<EncodedCommit>,
    time: Time,
    /// Some publish of this commit has an outcome that is not known: it may be stored, or be stored later.
    may_be_stored: bool,
}

impl Attempt<'_> {
    async fn run(mut self) -> Result<Placed, AppendError> {
        let Time { deadline, unstored } = self.time;
        let (mut pause, mut first) = (PAUSE_MIN, true);
        loop {
            // While there is no connection the client would keep the message and send it at some later time.
            let connected_by = if self.may_be_stored { deadline } else { unstored };
            if !requests::connected_by(&self.journal.client, connected_by).await {
                return Err(self.give_up("no connection".into()));
            }
            let published = self.publish(std::mem::replace(&mut first, false)).await;
            let refused_for_sequence = matches!(published, Published::WrongSequence);
            let refused_for_ever = matches!(published, Published::Sealed(_));
            let reason = match published {
                Published::Stored { sequence } => {
                    return Ok(Placed::Mine(self.encoded.recorded(self.commit, sequence, Utc::now())));
                }
                Published::TooLarge(reason) if !self.may_be_stored => return Err(AppendError::Unacceptable(reason)),
                Published::TooLarge(reason) | Published::NotStored(reason) | Published::Sealed(reason) => reason,
                Published::Duplicate { sequence } if sequence <= self.commit.expected.sequence => {
                    let reason = format!("its commit id is taken by the message at sequence {sequence}");
                    return Err(AppendError::Unacceptable(reason));
                }
                Published::Duplicate { .. } => {
                    self.may_be_stored = true;
                    "the server takes it for a duplicate".into()
                }
                Published::WrongSequence if mutant!("conflict-without-reading") => return Ok(Placed::Another(None)),
                Published::WrongSequence => "wrong last sequence".into(),
                Published::Unclear(_) if mutant!("ack-loss-is-success") => {
                    let sequence = self.commit.expected.sequence + 1;
                    return Ok(Placed::Mine(self.encoded.recorded(self.commit, sequence, Utc::now())));
                }
                Published::Unclear(reason) if mutant!("ack-loss-is-failure") => {
                    return Err(AppendError::Unavailable(reason));
                }
                Published::Unclear(reason) => {
                    self.may_be_stored = true;
                    reason
                }
            };
            let subject = &self.encoded.envelope.subject;
            debug!(subject, reason, "acknowledgement is resolved by reading");
            match self.successor().await {
                Ok(Successor::Mine(stored)) => return found(&self.encoded, self.commit, &stored).map(Placed::Mine),
                Ok(Successor::Another(stored)) => return Ok(Placed::Another(Some(stored))),
                Ok(Successor::None { is_below_expected: true }) if refused_for_sequence && !self.may_be_stored => {
                    return Ok(Placed::Another(None));
                }
                // What was published before the shard was sealed may still be on its way through the replicas.
                Ok(Successor::None { .. }) if refused_for_ever && !self.may_be_stored => return Ok(Placed::Never),
                Ok(Successor::None { .. }) => {}
                Err(error) => debug!(subject, error, "reading failed"),
            }
            let until = if self.may_be_stored || refused_for_sequence { deadline } else { unstored };
            if Instant::now() + pause >= until {
                return Err(self.give_up(reason));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Publishes the commit once.
    async fn publish(&self, is_first: bool) -> Published {
        let Inner { client, options, groups, .. } = self.journal;
        let timeout = self.time.of_attempt(options);
        let message = Outgoing { commit: Arc::clone(&self.encoded), expected: self.commit.expected.sequence };
        if is_first {
            groups.publish(client, message, timeout).await
        } else {
            // What failed once goes by itself, and takes no others with it.
            message.publish(client, timeout).await
        }
    }

    /// Only when every publish was refused for certain can nothing of the commit be stored, now or later.
    fn give_up(&self, reason: String) -> AppendError {
        if self.may_be_stored { AppendError::Unknown(reason) } else { AppendError::Unavailable(reason) }
    }

    async fn successor(&self) -> Result<Successor, String> {
        let Inner { client, options, .. } = self.journal;
        let timeout = self.time.of_attempt(options);
        let stream = envelope::stream(self.encoded.shard);
        let subject = &self.encoded.envelope.subject;
        let expected = self.commit.expected.sequence;
        if mutant!("resolved-by-a-replica") {
            let last = requests::direct_last(client, &stream, subject, timeout).await?;
            return Ok(match last.filter(|last| last.sequence > expected) {
                Some(last) if is_mine(self.commit, &last) => Successor::Mine(last),
                Some(last) => Successor::Another(last),
                None => Successor::None { is_below_expected: true },
            });
        }
        let next = Pick::Next { from: expected + 1, subject };
        if let Some(next) = requests::leader_get(client, &stream, &next, timeout).await? {
            let mine = is_mine(self.commit, &next);
            return Ok(if mine { Successor::Mine(next) } else { Successor::Another(next) });
        }
        let last = requests::leader_get(client, &stream, &Pick::Last { subject }, timeout).await?;
        Ok(Successor::None { is_below_expected: last.map_or(0, |last| last.sequence) < expected })
    }
}

/// What is on record of `commit`, from which `encoded` was made, when the message with its id is `stored`.
pub(super) fn found(encoded: &EncodedCommit, commit: &Commit, stored: &Stored) -> Result<Recorded, AppendError> {
    let same = Envelope::read(&stored.subject, stored.header_pairs())
        .is_ok_and(|envelope| envelope.hash(&stored.body) == encoded.hash);
    if !same {
        let reason = format!("its commit id is stored with other content at sequence {}", stored.sequence);
        warn!(subject = encoded.envelope.subject, reason);
        return Err(AppendError::Unacceptable(reason));
    }
    Ok(encoded.recorded(commit, stored.sequence, stored.stored_at))
}
