//! Reading: one payment or batch by the messages that it lies in, or a shard in order.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

use events::StreamId;
use journal::{
    ReadError, Recorded,
    envelope::{self, Chain},
};

use super::{
    Inner,
    segment::{self, Defect, Segment},
    shard::Shard,
};
use crate::requests::{self, BatchRequest, Pick, Stored};

/// Most messages and bytes that are read at a time.
pub(super) const MESSAGES_MAX: usize = 64;
pub(super) const BYTES_MAX: usize = 4 * 1024 * 1024;
const RETRY_PAUSE: Duration = Duration::from_millis(25);

pub(super) fn unavailable(reason: String) -> ReadError {
    ReadError::Unavailable(reason)
}

pub(super) fn unreadable(shard: u16, sequence: u64, subject: Option<String>, reason: impl ToString) -> ReadError {
    ReadError::Unreadable { shard, sequence, subject, reason: reason.to_string() }
}

impl Inner {
    /// Runs `read` until it succeeds, the stored data is at fault, or the read time-out has passed.
    pub(super) async fn retrying<T, F>(&self, mut read: impl FnMut() -> F) -> Result<T, ReadError>
    where
        F: Future<Output = Result<T, ReadError>>,
    {
        let deadline = Instant::now() + self.options.read_timeout;
        let connected_by = deadline.min(Instant::now() + self.options.unstored_timeout);
        loop {
            while !requests::connected(self.reader()) {
                if Instant::now() >= connected_by {
                    return Err(unavailable("no connection".into()));
                }
                sleep(RETRY_PAUSE).await;
            }
            let read =
                timeout_at(deadline, read()).await.unwrap_or_else(|_| Err(unavailable("no answer in time".into())));
            match read {
                Err(ReadError::Unavailable(_)) if Instant::now() + RETRY_PAUSE < deadline => sleep(RETRY_PAUSE).await,
                other => return other,
            }
        }
    }

    pub(super) async fn load_stream(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        let shard = self.shard_of(stream_id);
        self.retrying(|| self.look(shard)).await?;
        if shard.is_damaged() {
            return Err(unreadable(shard.number, 0, None, "a commit in its shard belongs to no stream"));
        }
        let Some(head) = shard.head_of(stream_id) else { return Ok(Vec::new()) };
        let subject = envelope::subject(shard.number, stream_id);
        if head.is_broken {
            let reason = "it does not follow the commit before it";
            return Err(unreadable(shard.number, head.sequence, Some(subject), reason));
        }
        let mut commits = Vec::new();
        let (mut message, mut version) = (head.message, head.version);
        while version > 0 {
            let damaged = |sequence, reason: String| unreadable(shard.number, sequence, Some(subject.clone()), reason);
            let segment = self.retrying(|| self.segment(shard, message)).await?;
            let entry =
                segment.last_of(&subject, version).map_err(|defect| damaged(segment.first, defect.to_string()))?;
            let lacks = || damaged(segment.first, format!("version {version} is not in message {message}"));
            let entry = entry.filter(|entry| entry.flat.version() == version).ok_or_else(lacks)?;
            commits.push(entry.open(shard.number).map_err(|error| damaged(entry.sequence, error.to_string()))?);
            (message, version) = (entry.before, version - 1);
        }
        commits.reverse();
        let mut chain = Chain::default();
        for commit in &commits {
            let followed = chain.follow(commit);
            followed
                .map_err(|error| unreadable(shard.number, commit.position.sequence, Some(subject.clone()), error))?;
        }
        Ok(commits)
    }

    /// A segment that is known to be stored.
    async fn segment(&self, shard: &Shard, message: u64) -> Result<Arc<Segment>, ReadError> {
        if let Some(segment) = shard.cached(message) {
            return Ok(segment);
        }
        let found = self.message(shard, message).await?;
        Segment::read(found).map(Arc::new).map_err(|defect| unreadable(shard.number, 0, None, defect))
    }

    /// A message that is known to be stored. It never changes, so any copy may tell it.
    async fn message(&self, shard: &Shard, message: u64) -> Result<Stored, ReadError> {
        let (stream, within) = (segment::stream(shard.number), self.options.attempt_timeout);
        let client = self.reader();
        let ask = BatchRequest { seq: message, subject: None, batch: 1, max_bytes: BYTES_MAX };
        let told = requests::direct_batch(client, &stream, &ask, within).await.map_err(unavailable)?;
        if let Some(found) = told.into_iter().find(|told| told.sequence == message) {
            return Ok(found);
        }
        let found = requests::leader_get(client, &stream, &Pick::At { seq: message }, within).await;
        let gone = || unreadable(shard.number, 0, None, format!("message {message} is missing"));
        found.map_err(unavailable)?.ok_or_else(gone)
    }

    pub(super) async fn replay_shard(
        &self,
        shard: &Shard,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Recorded>, ReadError> {
        let (mut next, mut commits) = (from.max(1), Vec::new());
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        while commits.len() < limit {
            if next > shard.end().commit {
                // What others have stored meanwhile.
                match self.retrying(|| self.look(shard)).await {
                    // What is known already is told while there is no leader.
                    Err(ReadError::Unavailable(_)) if !commits.is_empty() => break,
                    looked => looked?,
                }
                if next > shard.end().commit {
                    break;
                }
            }
            let is_there = |segment: &Arc<Segment>| (segment.first..=segment.end().commit).contains(&next);
            let segment = match segments.iter().find(|segment| is_there(segment)) {
                Some(segment) => Arc::clone(segment),
                None => {
                    segments = self.retrying(|| self.segments_at(shard, next)).await?;
                    continue;
                }
            };
            for entry in segment.entries_from(next).take(limit - commits.len()) {
                let entry = entry.map_err(|defect| unreadable(shard.number, next, None, defect))?;
                let subject = || Some(entry.flat.subject().to_owned());
                let commit = entry.open(shard.number);
                commits.push(commit.map_err(|error| unreadable(shard.number, next, subject(), error))?);
                next += 1;
            }
        }
        Ok(commits)
    }

    /// Sequence and stream of up to `limit` commits of a shard from one on that is known to be stored, as far as they can be told.
    pub(super) async fn streams(
        &self,
        shard: &Shard,
        from: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Option<StreamId>)>, ReadError> {
        let segments = self.retrying(|| self.segments_at(shard, from)).await?;
        let told = segments.iter().flat_map(|segment| {
            segment.entries().zip(segment.first..).map(|((subject, _), sequence)| {
                let stream_id = subject.and_then(|subject| envelope::stream_of(shard.number, subject).ok());
                (sequence, stream_id)
            })
        });
        Ok(told.skip_while(|(sequence, _)| *sequence < from).take(limit).collect())
    }

    /// Segments in order, one of them with the commit at `sequence`, which is known to be stored.
    async fn segments_at(&self, shard: &Shard, sequence: u64) -> Result<Vec<Arc<Segment>>, ReadError> {
        let (mut below, mut above) = shard.place(sequence);
        loop {
            let segments = self.read_on(shard, below, MESSAGES_MAX).await?;
            let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
                return Err(unavailable(format!("message {below} is not there")));
            };
            if first.first <= sequence && sequence <= last.end().commit {
                // Who reads on begins there.
                shard.remember(last.end().commit + 1, last.message + 1);
                return Ok(segments);
            }
            below = last.message + 1;
            // What is far is looked for in the middle of what is left.
            while above.saturating_sub(below) > MESSAGES_MAX as u64 {
                let middle = below + (above - below) / 2;
                match self.read_on(shard, middle, 1).await?.first() {
                    Some(segment) if segment.first <= sequence => below = segment.message,
                    _ => above = middle,
                }
            }
        }
    }

    /// Up to `limit` segments in order from a message on that is known to be stored. What is not a segment is passed over.
    async fn read_on(&self, shard: &Shard, message: u64, limit: usize) -> Result<Vec<Arc<Segment>>, ReadError> {
        let cached: Vec<_> = (message..).map_while(|message| shard.cached(message)).take(limit).collect();
        if !cached.is_empty() {
            return Ok(cached);
        }
        let (stream, within) = (segment::stream(shard.number), self.options.attempt_timeout);
        let (mut segments, mut next) = (Vec::new(), message);
        while segments.is_empty() && next <= shard.end().message {
            let ask = BatchRequest { seq: next, subject: None, batch: limit, max_bytes: BYTES_MAX };
            let found = requests::direct_batch(self.reader(), &stream, &ask, within).await;
            let mut found = found.map_err(unavailable)?;
            if found.first().is_none_or(|found| found.sequence != next) {
                // A copy that is behind: the leader has it.
                found = vec![self.message(shard, next).await?];
            }
            for found in found {
                if found.sequence != next {
                    break;
                }
                next += 1;
                match Segment::read(found) {
                    Ok(segment) => segments.push(Arc::new(segment)),
                    Err(Defect::Foreign) => {}
                    Err(defect) => return Err(unreadable(shard.number, 0, None, defect)),
                }
            }
        }
        Ok(segments)
    }
}
