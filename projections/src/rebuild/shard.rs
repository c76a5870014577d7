//! Shard rebuild: one shard of a shadow copy is filled from its stream, and compared with the copy in use.

use std::{collections::BTreeSet, sync::Arc};

use tracing::warn;

use events::StreamId;
use journal::{Journal, ReadError};

use crate::{
    prefetch::{PAGE_COMMITS, Prefetch},
    rebuild_status::{RebuildError, Verdict},
    store::{Checkpoint, Store, blocking},
    unreadable::{self, Next},
};

/// Streams of a shard that are named when they differ; more are counted.
const NAMED_MAX: usize = 20;

/// The rebuild of one shard.
pub(super) struct ShardRebuild {
    pub(super) shard: u16,
    journal: Arc<dyn Journal>,
    prefetch: Prefetch,
    pub(super) built: Checkpoint,
    /// Streams that differed at a first look, when one copy may have been ahead of the other.
    suspects: BTreeSet<StreamId>,
    /// Streams that moved after that look began.
    touched: BTreeSet<StreamId>,
    compared: u64,
    /// Why the old copy could not be read.
    unreadable: Option<String>,
    note_touched: bool,
}

impl ShardRebuild {
    pub(super) fn new(shard: u16, journal: Arc<dyn Journal>) -> Self {
        Self {
            shard,
            prefetch: Prefetch::new(Arc::clone(&journal), shard),
            journal,
            built: Checkpoint::default(),
            suspects: BTreeSet::new(),
            touched: BTreeSet::new(),
            compared: 0,
            unreadable: None,
            note_touched: false,
        }
    }

    /// Applies one page towards `target`; `false` when the stream does not have it for now.
    pub(super) async fn step(&mut self, new: &Arc<Store>, target: u64) -> Result<bool, RebuildError> {
        let shard = self.shard;
        // Sequences have no gaps, so this many commits reach no further than the target.
        let limit = |from: u64| usize::try_from(target + 1 - from).unwrap_or(PAGE_COMMITS).min(PAGE_COMMITS);
        let from = self.built.sequence + 1;
        let read = match self.prefetch.take(from, limit(from)).await {
            Some(next) => Ok(next),
            None => unreadable::next(self.journal.as_ref(), shard, from, limit(from)).await,
        };
        let next = match read {
            Ok(Next::Commits { page, .. }) if page.is_empty() => return Ok(false),
            Ok(next) => next,
            Err(ReadError::Unavailable(reason)) => {
                warn!(shard, reason, "the rebuild waits for its stream");
                return Ok(false);
            }
            Err(error @ ReadError::Unreadable { .. }) => return Err(RebuildError::Stream(error.to_string())),
        };
        if let Some(behind) = next.behind().filter(|behind| *behind <= target) {
            self.prefetch.begin(behind, limit(behind));
        }
        let applied = blocking(new, move |store| match next {
            Next::Commits { page, .. } => store.apply_what_follows(shard, &page),
            Next::Unreadable(unreadable) => store.step_over(shard, &unreadable),
        });
        let applied = applied.await?;
        self.built = applied.checkpoint;
        if self.note_touched {
            self.touched.extend(applied.changed);
        }
        Ok(true)
    }

    /// Compares the copies while both move: what differs has to be looked at again, and so has what moves from here on.
    pub(super) async fn look(&mut self, old: &Arc<Store>, new: &Arc<Store>) {
        self.note_touched = true;
        let (shard, old) = (self.shard, Arc::clone(old));
        match blocking(new, move |new| new.differences(&old, shard)).await {
            Ok((suspects, compared)) => (self.suspects, self.compared) = (suspects, compared),
            Err(fault) => self.unreadable = Some(fault.to_string()),
        }
    }

    /// The verdict, while neither copy moves.
    pub(super) async fn judge(&self, old: &Arc<Store>, new: &Arc<Store>) -> Verdict {
        let (shard, sequence) = (self.shard, self.built.sequence);
        if let Some(reason) = &self.unreadable {
            return Verdict::NotCompared { reason: format!("the old copy cannot be read: {reason}") };
        }
        let suspects: Vec<StreamId> = self.suspects.union(&self.touched).cloned().collect();
        let other = Arc::clone(old);
        let compared = blocking(new, move |new| {
            let stored = other.checkpoint(shard)?;
            let mut differ = Vec::new();
            for stream_id in suspects {
                if !new.agrees(&other, shard, &stream_id)? {
                    differ.push(stream_id);
                }
            }
            Ok((stored, differ))
        });
        match compared.await {
            Err(fault) => Verdict::NotCompared { reason: format!("the old copy cannot be read: {fault}") },
            Ok((stored, _)) if stored.sequence != sequence => {
                let at = stored.sequence;
                Verdict::NotCompared {
                    reason: format!("the old copy was at {at}, being built again, the new one at {sequence}"),
                }
            }
            Ok((stored, differ)) if differ.is_empty() && stored == self.built => {
                Verdict::Equal { sequence, streams: self.compared }
            }
            Ok((_, mut streams)) => {
                let count = streams.len() as u64;
                streams.truncate(NAMED_MAX);
                Verdict::Different { sequence, streams, count }
            }
        }
    }
}
