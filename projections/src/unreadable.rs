//! Unreadable messages: which stream they belong to, and how the rest of a shard is read around them.
//!
//! A payment with such a message in its stream has no view: what came before the message may be untrue by now. The
//! others of its shard have nothing to do with it and go on.

use serde::{Deserialize, Serialize};

use events::{CommitId, StreamId};
use journal::{Journal, ReadError, Recorded, envelope};

/// The record of an unreadable message, stored in the place of the view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnreadableRecord {
    /// Stream sequence of the message at fault.
    pub(crate) sequence: u64,
    /// The defect.
    pub(crate) reason: String,
}

/// A message of a shard that is not a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The payment or batch it belongs to; `None` when its subject is that of none.
    pub(crate) stream_id: Option<StreamId>,
    /// Id of the commit that it is, when it is one that only does not follow on what was applied.
    pub(crate) commit_id: Option<CommitId>,
    /// Its record.
    pub(crate) record: UnreadableRecord,
}

/// The next part of a shard.
#[derive(Debug)]
pub(crate) enum Next {
    /// Commits, in order.
    Commits {
        /// The commits.
        page: Vec<Recorded>,
        /// Whether nothing lies behind them for now.
        ended: bool,
    },
    /// A message that is not a commit.
    Unreadable(Unreadable),
}

impl Next {
    /// The sequence behind it, where something lies as far as is known.
    pub(crate) fn behind(&self) -> Option<u64> {
        match self {
            Self::Commits { ended: true, .. } => None,
            Self::Commits { page, ended: false } => page.last().map(|last| last.position.sequence + 1),
            Self::Unreadable(unreadable) => Some(unreadable.record.sequence + 1),
        }
    }
}

/// The next part from `from` on: up to `limit` commits, or the one message there that cannot be read.
///
/// # Errors
/// [`ReadError::Unavailable`], or [`ReadError::Unreadable`] of a message that is missing: nobody knows whose it was.
pub(crate) async fn next(journal: &dyn Journal, shard: u16, from: u64, limit: usize) -> Result<Next, ReadError> {
    match journal.replay(shard, from, limit).await {
        Err(ReadError::Unreadable { sequence, .. }) if sequence > from => {
            let before = usize::try_from(sequence - from).unwrap_or(limit).min(limit);
            let page = journal.replay(shard, from, before).await?;
            Ok(Next::Commits { page, ended: false })
        }
        Err(ReadError::Unreadable { sequence, subject: Some(subject), reason, .. }) => {
            let stream_id = envelope::stream_of(shard, &subject).ok();
            Ok(Next::Unreadable(Unreadable {
                stream_id,
                commit_id: None,
                record: UnreadableRecord { sequence, reason },
            }))
        }
        page => page.map(|page| Next::Commits { ended: page.len() < limit, page }),
    }
}

/// The commit id in the checkpoint of a message without one.
pub(crate) const NO_COMMIT: &str = "unreadable";
