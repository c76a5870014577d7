//! What is to be said of a commit by the stream that it belongs to: for stores that decide an append on a stream that they have.

use super::{AppendError, Commit, Position, Recorded, envelope::EncodedCommit};

/// The commit itself when it is stored in `stream` already, which is the whole stream; `None` when it may be stored now.
///
/// # Errors
/// [`AppendError::Conflict`] when another commit came first, [`AppendError::Unacceptable`] when `commit` never can be stored.
pub fn successor(
    stream: &[Recorded],
    commit: &Commit,
    encoded: &EncodedCommit,
) -> Result<Option<Recorded>, AppendError> {
    let at = stream.last().map_or(Position::START, |last| last.position);
    if at.sequence == commit.expected.sequence {
        let same = at == commit.expected;
        return if same { Ok(None) } else { Err(AppendError::Unacceptable("its position never existed".into())) };
    }
    let next = stream.iter().find(|stored| stored.position.sequence > commit.expected.sequence);
    match next {
        Some(stored) if stored.commit_id != commit.commit_id => Err(AppendError::Conflict),
        Some(stored) if stored.position.hash == encoded.hash => Ok(Some(stored.clone())),
        Some(_) => Err(AppendError::Unacceptable("its commit id is stored with other content".into())),
        None => Err(AppendError::Conflict),
    }
}
