//! Faults of stored views: the reasons why they cannot be used.

use events::StreamId;

/// Why stored views cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// sled failed; nothing in the database can be relied on.
    #[error("sled: {0}")]
    Storage(String),
    /// A value has another format version or no meaning, or the tree's own accounts do not add up.
    #[error("{0}")]
    Damaged(String),
    /// The stream holds a commit that does not follow on what was applied.
    #[error("commit {version} of {stream_id} at sequence {sequence} does not follow on what was applied")]
    Gap {
        /// The payment or batch.
        stream_id: StreamId,
        /// Version of the commit.
        version: u64,
        /// Its stream sequence.
        sequence: u64,
    },
}

impl From<sled::Error> for Fault {
    fn from(error: sled::Error) -> Self {
        Self::Storage(error.to_string())
    }
}
