//! The first commit of a stream, which must begin once across all epochs, whichever epochs a process knows of (ADR 73).
//!
//! A stream begins in the newest epoch that the process knows, after its id was closed in every older one: a mark is
//! appended to its subject there, under the condition that nothing lies there. So of two processes that know of different
//! epochs, both meet in the older of the two, where one of them comes first. What is found in the place of a mark is the
//! stream; a mark in the place of the stream says that there is a newer epoch. In a sealed epoch nothing can come any more,
//! so it is enough to look.

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use events::{CommitId, Epoch, Epochs};
use journal::{AppendError, Commit, Recorded, envelope, stream_moved::mark};

use super::{
    Inner,
    append::{PAUSE_MAX, PAUSE_MIN, Placed, Time, encode, found, is_mine},
};
use crate::requests::{self, Pick, Stored};

impl Inner {
    /// Appends the first commit of a stream.
    pub(super) async fn append_first(&self, commit: &Commit, time: Time) -> Result<Recorded, AppendError> {
        loop {
            let epochs = self.known.all();
            let current = epochs.current();
            let encoded = encode(commit, current.shard_of(&commit.stream_id))?;
            if let Some(recorded) = self.close_older(commit, &epochs, time).await? {
                return Ok(recorded);
            }
            let reason = match self.attempt(commit, encoded, time).await? {
                Placed::Mine(recorded) => return Ok(recorded),
                Placed::Another(Some(stored)) if requests::is_moved(&stored.headers) => "a mark names a newer epoch",
                Placed::Another(_) => return Err(AppendError::Conflict),
                Placed::Never => "the newest epoch that is known is sealed",
            };
            // Nothing of the commit can be stored in this epoch any more, so the next attempt is the only one.
            self.learn_beyond(&epochs, reason, time).await?;
        }
    }

    /// Makes sure that the stream begins in no epoch before the current one, now or later. `Some` when it has begun there, and
    /// with this very commit.
    async fn close_older(&self, commit: &Commit, epochs: &Epochs, time: Time) -> Result<Option<Recorded>, AppendError> {
        let to_epoch = epochs.current().number;
        if epochs.older().is_empty() {
            return Ok(None);
        }
        let closed = join_all(epochs.older().iter().map(|epoch| self.close(commit, epoch, to_epoch, time))).await;
        let mut failed = None;
        for (outcome, epoch) in closed.into_iter().zip(epochs.older()) {
            match outcome {
                Ok(None) => {}
                // Final, whatever became of the others.
                Ok(Some(first)) if is_mine(commit, &first) => {
                    return found(&encode(commit, epoch.shard_of(&commit.stream_id))?, commit, &first).map(Some);
                }
                Ok(Some(_)) => return Err(AppendError::Conflict),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Closes the stream's id in one epoch. `Some` when the stream has begun there: its first message.
    async fn close(
        &self,
        commit: &Commit,
        epoch: &Epoch,
        to_epoch: u16,
        time: Time,
    ) -> Result<Option<Stored>, AppendError> {
        let shard = epoch.shard_of(&commit.stream_id);
        let found = if epoch.sealed {
            self.first_of(commit, shard, time).await?
        } else {
            let mark = mark(commit, to_epoch, CommitId::random());
            match self.attempt(&mark, encode(&mark, shard)?, time).await {
                Ok(Placed::Another(first)) => first,
                Ok(Placed::Mine(_) | Placed::Never) => None,
                // Whatever became of the mark, nothing of the commit is stored.
                Err(AppendError::Unknown(reason)) => return Err(AppendError::Unavailable(reason)),
                Err(error) => return Err(error),
            }
        };
        Ok(found.filter(|first| !requests::is_moved(&first.headers)))
    }

    /// The first message of the stream in a sealed shard.
    async fn first_of(&self, commit: &Commit, shard: u16, time: Time) -> Result<Option<Stored>, AppendError> {
        let (stream, subject) = (envelope::stream(shard), envelope::subject(shard, &commit.stream_id));
        let mut pause = PAUSE_MIN;
        loop {
            if !requests::connected_by(&self.client, time.unstored).await {
                return Err(AppendError::Unavailable("no connection".into()));
            }
            let first = Pick::Next { from: 1, subject: &subject };
            let timeout = time.of_attempt(&self.options);
            let reason = match requests::leader_get(&self.client, &stream, &first, timeout).await {
                Ok(first) => return Ok(first),
                Err(reason) => reason,
            };
            if Instant::now() + pause >= time.unstored {
                return Err(AppendError::Unavailable(reason));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Returns once there are more epochs than `epochs`.
    async fn learn_beyond(&self, epochs: &Epochs, reason: &str, time: Time) -> Result<(), AppendError> {
        let mut pause = PAUSE_MIN;
        loop {
            let looked = self.look(Instant::now()).await;
            if self.known.shards() > epochs.shards() {
                return Ok(());
            }
            if Instant::now() + pause >= time.unstored {
                let why = looked.err().unwrap_or_else(|| "none is there".to_owned());
                return Err(AppendError::Unavailable(format!("{reason}: {why}")));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
