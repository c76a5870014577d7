//! Rebuild status: how far a rebuild of the views is, and what came of it.

use events::{StreamId, time::Timestamp};

use crate::fault::Fault;

/// Why the views were not, or are not being, built again. The copy in use stays in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// One is under way already.
    #[error("a rebuild is under way already, since {}", .0.format("%H:%M:%S"))]
    UnderWay(Timestamp),
    /// The journal has fewer shards than the projections.
    #[error("the journal has {journal} shards, the projections were opened for {projections}")]
    Shards {
        /// Shards of the journal.
        journal: u16,
        /// Shards of the projections.
        projections: u16,
    },
    /// The new copy cannot be written.
    #[error("the new copy cannot be written: {0}")]
    Storage(String),
    /// A stream cannot be read.
    #[error("{0}")]
    Stream(String),
    /// The copy in use failed meanwhile, and an empty one took its place.
    #[error("the copy in use failed meanwhile and is being built again by itself")]
    Replaced,
    /// The stream or the shards were not ready for the last step for too long.
    #[error("the two copies could not change places: {0}")]
    Unsettled(String),
    /// The process is to stop.
    #[error("the gateway was stopped")]
    Stopped,
}

impl From<Fault> for RebuildError {
    fn from(fault: Fault) -> Self {
        Self::Storage(fault.to_string())
    }
}

/// The verdict of the comparison of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Both copies are the same, entry by entry.
    Equal {
        /// Stream sequence that both were at.
        sequence: u64,
        /// Payments and batches compared.
        streams: u64,
    },
    /// The old copy was wrong.
    Different {
        /// Stream sequence that both were at.
        sequence: u64,
        /// Payments and batches that the old copy showed wrongly or not at all; a bounded number of them.
        streams: Vec<StreamId>,
        /// How many there are; 0 when only records of settlers, which are logged, or the old copy's own accounts were wrong.
        count: u64,
    },
    /// There was nothing to compare with.
    NotCompared {
        /// Why.
        reason: String,
    },
}

/// How far a shard of the new copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildProgress {
    /// The shard.
    pub shard: u16,
    /// Commits applied.
    pub done: u64,
    /// Commits there are, as far as known.
    pub total: u64,
}

/// The phase of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebuildPhase {
    /// The new copy is filled.
    Building,
    /// The copies are compared.
    Comparing,
    /// The new copy is in use.
    Done {
        /// The verdict on each shard, in their order.
        verdicts: Vec<Verdict>,
    },
    /// The old copy stays in use.
    Failed {
        /// Why.
        error: RebuildError,
    },
}

/// A rebuild, under way or over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildStatus {
    /// Tells it from others.
    pub id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; absent while it is under way.
    pub ended_at: Option<Timestamp>,
    /// Its phase, or its end.
    pub phase: RebuildPhase,
    /// How far each shard is.
    pub shards: Vec<RebuildProgress>,
}
