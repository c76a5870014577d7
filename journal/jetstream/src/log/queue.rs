//! The commits that wait to be written in a shard, and what becomes of them.

use std::{collections::VecDeque, mem, sync::Arc};

use tokio::{sync::oneshot, time::Instant};

use events::StreamId;
use journal::{Position, envelope::EncodedCommit};

/// Most commits of a segment.
const COMMITS_MAX: usize = 1_000;

/// The commits that wait to be written in a shard.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// Commits that have waited so far.
    counted: u64,
    /// Whether somebody writes.
    is_written: bool,
}

/// A commit that waits to be stored.
pub(super) struct Waiting {
    pub number: u64,
    pub stream_id: StreamId,
    pub expected: Position,
    pub encoded: Arc<EncodedCommit>,
    /// When to give up where nothing of it can be stored, and where it can.
    pub unstored: Instant,
    pub deadline: Instant,
    /// The message behind which it may be stored, or be stored later.
    pub unclear_behind: Option<u64>,
    pub outcome: oneshot::Sender<Outcome>,
}

/// What became of a commit.
#[derive(Debug)]
pub(super) enum Outcome {
    Stored {
        sequence: u64,
    },
    /// It does not follow what is stored; it may be stored already.
    DoesNotFollow,
    /// Nothing of it is stored, now or later.
    NotStored(String),
    /// It can never be stored.
    Unacceptable(String),
    /// It is stored, not stored, or still on its way.
    Unknown(String),
}

impl Waiting {
    pub(super) fn tell(self, outcome: Outcome) {
        // Whoever gave up is told nothing.
        drop(self.outcome.send(outcome));
    }
}

impl Queue {
    /// A number for the next one.
    pub(super) fn next_number(&mut self) -> u64 {
        self.counted += 1;
        self.counted
    }

    /// Puts one at the end; whether somebody has to begin to write.
    pub(super) fn push(&mut self, one: Waiting) -> bool {
        self.waiting.push_back(one);
        !mem::replace(&mut self.is_written, true)
    }

    /// Takes one out that nobody has begun to write; whether it was there.
    pub(super) fn forget(&mut self, number: u64) -> bool {
        let found = self.waiting.binary_search_by_key(&number, |one| one.number);
        found.is_ok_and(|at| self.waiting.remove(at).is_some())
    }

    /// Whether commits wait that are written soon.
    pub(super) fn is_busy(&self) -> bool {
        self.is_written && !self.waiting.is_empty()
    }

    /// Nobody writes any more.
    pub(super) fn stop(&mut self) {
        self.is_written = false;
    }

    /// Moves to `batch` what has room in it. Where nothing is in it then, nobody writes any more: false.
    pub(super) fn take(&mut self, batch: &mut Vec<Waiting>) -> bool {
        while batch.len() < COMMITS_MAX
            && let Some(one) = self.waiting.pop_front()
        {
            // An append whose caller gave up is not sent.
            if !one.outcome.is_closed() {
                batch.push(one);
            }
        }
        self.is_written = !batch.is_empty();
        self.is_written
    }
}
