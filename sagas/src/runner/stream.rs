//! Reading and appending one stream, with back-off for as long as it takes.

use std::{collections::BTreeMap, time::Duration};

use tracing::Instrument;

use events::{CommitId, Event, Payload, StreamId, mutant, time::Timestamp};
use journal::{AppendError, Commit, Position, ReadError, Recorded};

use super::{Engine, backoff::Backoff, drive::Stuck, spans};
use crate::payment::{self, IllegalTransition, Milestones, Payment};

/// Where a stream stands, and what its next commit follows from.
#[derive(Debug, Clone)]
pub(super) struct At {
    position: Position,
    correlation: String,
    causation: String,
}

impl At {
    /// Behind the last of these commits; `None` when there are none.
    pub(super) fn end_of(commits: &[Recorded]) -> Option<Self> {
        let last = commits.last()?;
        Some(Self {
            position: last.position,
            correlation: last.correlation.clone(),
            causation: last.commit_id.to_string(),
        })
    }

    /// Sequence of the last of them in its shard.
    pub(super) fn sequence(&self) -> u64 {
        self.position.sequence
    }

    /// Whether the stream lies in another shard than `shard`.
    pub(super) fn is_outside(&self, shard: Option<u16>) -> bool {
        shard.is_some_and(|shard| shard != self.position.shard)
    }
}

/// A commit that is stored.
pub(super) struct Appended {
    /// Where the stream stands then.
    pub at: At,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// What is in it.
    pub events: Vec<Event>,
}

/// A state with where its stream stands.
pub(super) struct Loaded<S> {
    /// The state.
    pub state: S,
    /// Where its stream stands.
    pub at: At,
    /// Sequence of its first commit.
    pub begun: u64,
    /// The latest time that stands in it as that of something that happened. Nothing that follows is recorded with an earlier one.
    pub latest: Timestamp,
    /// When it reached what it did.
    pub milestones: Milestones,
}

impl<S> Loaded<S> {
    /// Whether its stream begins up to the sequence that stands there for its shard.
    pub(super) fn is_in(&self, heads: &BTreeMap<u16, u64>) -> bool {
        heads.get(&self.at.position.shard).is_some_and(|last| self.begun <= *last)
    }
}

/// Where the stream would stand with `commit` in it, for broken variants that take it for stored.
fn unstored(commit: Commit, stored_at: Timestamp) -> Appended {
    let Commit { expected: position, correlation, causation, events, .. } = commit;
    Appended { at: At { position, correlation, causation }, stored_at, events }
}

impl Engine {
    /// The commits of a stream, waiting for the journal when it cannot be reached.
    pub(super) async fn commits(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, Stuck> {
        let mut backoff = Backoff::default();
        loop {
            match self.commits_once(stream_id, &mut backoff).await? {
                Ok(commits) => return Ok(commits),
                Err(pause) => self.ports().clock.sleep(pause).await,
            }
        }
    }

    /// The commits of a stream; when the journal cannot be reached, how long that is to be waited for.
    pub(super) async fn commits_once(
        &self,
        stream_id: &StreamId,
        backoff: &mut Backoff,
    ) -> Result<Result<Vec<Recorded>, Duration>, Stuck> {
        match self.ports().journal.load(stream_id).await {
            Ok(commits) => Ok(Ok(commits)),
            Err(ReadError::Unavailable(reason)) => {
                let say = |backoff: &Backoff| {
                    let (faults, since) = (backoff.count(), backoff.since());
                    tracing::warn!(%stream_id, faults, since, reason, "journal unavailable");
                };
                Ok(Err(self.pause_after_fault(backoff, say)))
            }
            Err(unreadable) => Err(unreadable.into()),
        }
    }

    /// Appends `events` and says where the stream stands then; `None` when it has to be loaded again.
    pub(super) async fn append(
        &self,
        stream_id: &StreamId,
        at: At,
        events: Vec<Event>,
    ) -> Result<Option<Appended>, Stuck> {
        let commit = Commit {
            stream_id: stream_id.clone(),
            expected: at.position,
            commit_id: CommitId::random(),
            events,
            correlation: at.correlation,
            causation: at.causation,
        };
        let span = spans::commit(&commit.events);
        let mut backoff = Backoff::default();
        loop {
            match self.ports().journal.append(&commit).instrument(span.clone()).await {
                Ok(Recorded { position, stored_at, .. }) => {
                    let types: Vec<_> = commit.events.iter().map(Event::type_name).collect();
                    let types = types.join(",");
                    tracing::info!(%stream_id, version = position.version, events = types, "recorded");
                    spans::recorded(&types);
                    let (correlation, causation) = (commit.correlation, commit.commit_id.to_string());
                    let at = At { position, correlation, causation };
                    return Ok(Some(Appended { at, stored_at, events: commit.events }));
                }
                Err(AppendError::Conflict) if mutant!("conflict-ignored") => {
                    return Ok(Some(unstored(commit, self.ports().clock.now())));
                }
                Err(AppendError::Unknown(_)) if mutant!("unknown-is-stored") => {
                    return Ok(Some(unstored(commit, self.ports().clock.now())));
                }
                Err(AppendError::Conflict) => return Ok(None),
                // The same commit again: the journal tells mine from another's by its id.
                Err(AppendError::Unavailable(reason) | AppendError::Unknown(reason)) => {
                    let say = |backoff: &Backoff| {
                        let (faults, since) = (backoff.count(), backoff.since());
                        tracing::warn!(%stream_id, faults, since, reason, "append not acknowledged");
                    };
                    self.back_off(&mut backoff, say).await;
                }
                Err(AppendError::Unacceptable(reason)) => return Err(Stuck::Unacceptable(reason)),
            }
        }
    }
}

/// The payment that these commits are; `None` when there are none.
pub(super) fn loaded(commits: &[Recorded]) -> Result<Option<Loaded<Payment>>, IllegalTransition> {
    let state = payment::fold(commits.iter().flat_map(Recorded::payment_events))?;
    let milestones = Milestones::of(commits.iter().map(|commit| (commit.stored_at, commit.payment_events())));
    let begun = commits.first().map_or(0, |first| first.position.sequence);
    let mut loaded = state.zip(At::end_of(commits)).map(|(state, at)| {
        let happened = commits.iter().flat_map(Recorded::payment_events).filter_map(payment::written_at);
        let latest = happened.fold(state.submitted.submitted_at, Timestamp::max);
        Loaded { state, at, begun, latest, milestones }
    });
    if let Some(loaded) = &mut loaded {
        // The body as it came is most of what an open payment would take, and nothing but its payloads is read here.
        let submitted = &mut loaded.state.submitted;
        submitted.request = Payload::reduced(&submitted.request);
    }
    Ok(loaded)
}
