//! Appending, with every ambiguous acknowledgement resolved.

use std::time::Duration;

use chrono::Utc;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::Inner;
use crate::{
    jetstream::{self, Pick, Published, Stored},
    journal::{
        AppendError, Commit, Recorded,
        envelope::{self, Envelope, Sealed},
    },
};

/// First pause before the same publish is tried again; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// What lies directly behind the expected position of a commit. As nothing can ever be taken out of a stream, a message
/// there is final: whoever it belongs to has won.
enum Successor {
    Mine(Stored),
    Another,
    /// Nothing yet. This never proves that a publish of ours will not arrive.
    None {
        /// The stream's last sequence is below the expected one.
        ahead: bool,
    },
}

impl Inner {
    pub(super) async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        let shard = commit.stream_id.shard(self.shards);
        let sealed = Sealed::new(commit, shard).map_err(|error| AppendError::Unacceptable(error.to_string()))?;
        let _own = self.heads.own(shard, &commit.commit_id);
        let recorded = Attempt { journal: self, commit, sealed, may_be_stored: false }.run().await?;
        self.heads.note(shard, recorded.position.sequence);
        Ok(recorded)
    }
}

struct Attempt<'a> {
    journal: &'a Inner,
    commit: &'a Commit,
    sealed: Sealed,
    /// Some publish of this commit has an outcome that is not known: it may be stored, or be stored later.
    may_be_stored: bool,
}

impl Attempt<'_> {
    async fn run(mut self) -> Result<Recorded, AppendError> {
        let options = &self.journal.options;
        let started = Instant::now();
        let deadline = started + options.append_timeout;
        // There is more time for finding out what happened than for making it happen.
        let unstored = deadline.min(started + options.unstored_timeout);
        let mut pause = PAUSE_MIN;
        loop {
            // While there is no connection the client would keep the message and send it at some later time.
            let connected_by = if self.may_be_stored { deadline } else { unstored };
            if !jetstream::connected_by(&self.journal.client, connected_by).await {
                return Err(self.give_up("no connection".into()));
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            let timeout = remaining.min(options.attempt_timeout).max(PAUSE_MIN);
            let headers = self.sealed.headers(self.commit.expected.sequence);
            let body = self.sealed.body.clone();
            let subject = &self.sealed.envelope.subject;
            let published = jetstream::publish(&self.journal.client, subject, headers, body, timeout).await;
            let refused_for_sequence = matches!(published, Published::WrongSequence);
            let reason = match published {
                Published::Stored { sequence } => {
                    return Ok(self.sealed.recorded(self.commit, sequence, Utc::now()));
                }
                Published::TooLarge(reason) if !self.may_be_stored => return Err(AppendError::Unacceptable(reason)),
                Published::TooLarge(reason) | Published::NotStored(reason) => reason,
                Published::Duplicate { sequence } if sequence <= self.commit.expected.sequence => {
                    let reason = format!("its commit id is taken by the message at sequence {sequence}");
                    return Err(AppendError::Unacceptable(reason));
                }
                Published::Duplicate { .. } => {
                    self.may_be_stored = true;
                    "the server takes it for a duplicate".into()
                }
                Published::WrongSequence => "wrong last sequence".into(),
                Published::Unclear(reason) => {
                    self.may_be_stored = true;
                    reason
                }
            };
            debug!(subject, reason, "acknowledgement is resolved by reading");
            match self.successor(deadline).await {
                Ok(Successor::Mine(stored)) => return self.found(&stored),
                Ok(Successor::Another) => return Err(AppendError::Conflict),
                Ok(Successor::None { ahead: true }) if refused_for_sequence && !self.may_be_stored => {
                    return Err(AppendError::Conflict);
                }
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

    /// Only when every publish was refused for certain can nothing of the commit be stored, now or later.
    fn give_up(&self, reason: String) -> AppendError {
        if self.may_be_stored { AppendError::Unknown(reason) } else { AppendError::Unavailable(reason) }
    }

    fn found(&self, stored: &Stored) -> Result<Recorded, AppendError> {
        let same = Envelope::read(&stored.subject, &stored.headers)
            .is_ok_and(|envelope| envelope.hash(&stored.body) == self.sealed.hash);
        if !same {
            let reason = format!("its commit id is stored with other content at sequence {}", stored.sequence);
            warn!(subject = self.sealed.envelope.subject, reason);
            return Err(AppendError::Unacceptable(reason));
        }
        Ok(self.sealed.recorded(self.commit, stored.sequence, stored.stored_at))
    }

    async fn successor(&self, deadline: Instant) -> Result<Successor, String> {
        let Inner { client, options, .. } = self.journal;
        let remaining = deadline.saturating_duration_since(Instant::now());
        let timeout = remaining.min(options.attempt_timeout).max(PAUSE_MIN);
        let stream = envelope::stream(self.sealed.shard);
        let subject = &self.sealed.envelope.subject;
        let expected = self.commit.expected.sequence;
        let next = Pick::Next { from: expected + 1, subject };
        if let Some(next) = jetstream::leader_get(client, &stream, &next, timeout).await? {
            let mine = next.headers.get(jetstream::MESSAGE_ID).is_some_and(|id| id.as_str() == self.commit_id());
            return Ok(if mine { Successor::Mine(next) } else { Successor::Another });
        }
        let last = jetstream::leader_get(client, &stream, &Pick::Last { subject }, timeout).await?;
        Ok(Successor::None { ahead: last.map_or(0, |last| last.sequence) < expected })
    }

    fn commit_id(&self) -> &str {
        self.commit.commit_id.as_str()
    }
}
