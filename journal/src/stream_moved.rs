//! The `StreamMoved` mark: a stream's id is closed in an epoch, because the stream begins in a later one (ADR 73).

use events::{
    CommitId, Event,
    event::{Mark, Moved},
};

use super::{Commit, Position};

/// The mark by which the id of the stream that `opening` begins is closed in an epoch before `to_epoch`. It is a commit of
/// its own, the first and only one of its subject.
pub fn mark(opening: &Commit, to_epoch: u16, commit_id: CommitId) -> Commit {
    Commit {
        stream_id: opening.stream_id.clone(),
        expected: Position::START,
        commit_id,
        events: vec![Mark::Moved(Moved { to_epoch }).into()],
        correlation: opening.correlation.clone(),
        causation: opening.commit_id.to_string(),
    }
}

/// Whether a commit holds a mark, which only the journal itself may make.
pub fn holds_mark(commit: &Commit) -> bool {
    commit.events.iter().any(|event| matches!(event, Event::Mark(_)))
}
