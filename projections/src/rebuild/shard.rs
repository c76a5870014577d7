//! Shard rebuild: one shard of a shadow copy is filled from its stream, and compared with the copy in use.

use std::{collections::BTreeSet, sync::Arc};

use tracing::{error, warn};

use events::{Did, StreamId};
use journal::{Journal, ReadError};

use crate::{
    prefetch::{PAGE_COMMITS, Prefetch},
    rebuild_status::{RebuildError, Verdict},
    store::{Checkpoint, Differences, Page, Pending, Store, blocking},
    unreadable::{self, NO_COMMIT, Next},
};

use super::PAUSE;

/// Streams of a shard, and settlers, that are named when they differ; more are counted.
const NAMED_MAX: usize = 20;

/// The rebuild of one shard.
pub(super) struct ShardRebuild {
    pub(super) shard: u16,
    journal: Arc<dyn Journal>,
    prefetch: Prefetch,
    /// How far it is stored.
    pub(super) built: Checkpoint,
    pending: Pending,
    /// What differed at a first look, when one copy may have been ahead of the other.
    suspects: Differences,
    /// Streams that moved after that look began.
    touched: BTreeSet<StreamId>,
    /// Why the old copy could not be read.
    unreadable: Option<String>,
    note_touched: bool,
}

impl ShardRebuild {
    /// Begins where `new` stands, if that is sound and of the stream at hand, and at the first commit otherwise.
    ///
    /// # Errors
    /// When it cannot be emptied.
    pub(super) async fn begin(shard: u16, journal: Arc<dyn Journal>, new: &Arc<Store>) -> Result<Self, RebuildError> {
        let stored = match blocking(new, move |store| store.verify(shard)).await {
            Ok(stored) if stored.sequence == 0 || is_of_stream(journal.as_ref(), shard, &stored).await => Some(stored),
            Ok(_) => None,
            Err(fault) => {
                warn!(shard, %fault, "what an interrupted rebuild left of a shard is of no use");
                None
            }
        };
        let built = match stored {
            Some(stored) => stored,
            None => {
                blocking(new, move |store| store.reset(shard)).await?;
                Checkpoint::default()
            }
        };
        Ok(Self {
            shard,
            prefetch: Prefetch::new(Arc::clone(&journal), shard),
            journal,
            built,
            pending: Pending::default(),
            suspects: Differences::default(),
            touched: BTreeSet::new(),
            unreadable: None,
            note_touched: false,
        })
    }

    /// Applies one page towards `target`; `false` when the stream does not have it for now.
    pub(super) async fn step(&mut self, new: &Arc<Store>, target: u64) -> Result<bool, RebuildError> {
        let shard = self.shard;
        if self.pending.sequence().is_some_and(|folded| folded >= target) {
            // The other copy was begun anew meanwhile.
            let pending = std::mem::take(&mut self.pending);
            let stored = blocking(new, move |store| store.store(shard, pending)).await?;
            self.stored(Some(stored));
            return Ok(true);
        }
        // Sequences have no gaps, so this many commits reach no further than the target.
        let limit = |from: u64| usize::try_from(target + 1 - from).unwrap_or(PAGE_COMMITS).min(PAGE_COMMITS);
        let from = self.pending.sequence().unwrap_or(self.built.sequence) + 1;
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
        let pending = std::mem::take(&mut self.pending);
        // Nothing is left to be stored when it has got there.
        let lags = next.behind().is_some_and(|behind| behind <= target);
        let taken = blocking(new, move |store| store.take(shard, pending, &next, true, lags)).await?;
        self.pending = taken.pending;
        self.stored(taken.stored);
        Ok(true)
    }

    fn stored(&mut self, stored: Option<Page>) {
        let Some(Page { checkpoint, changed }) = stored else { return };
        self.built = checkpoint;
        if self.note_touched {
            self.touched.extend(changed);
        }
    }

    /// Compares the copies while both move: what differs has to be looked at again, and so has what moves from here on.
    pub(super) async fn look(&mut self, old: &Arc<Store>, new: &Arc<Store>) {
        self.note_touched = true;
        let (shard, old) = (self.shard, Arc::clone(old));
        match blocking(new, move |new| new.differences(&old, shard)).await {
            Ok(suspects) => self.suspects = suspects,
            Err(fault) => self.unreadable = Some(fault.to_string()),
        }
    }

    /// The verdict, while neither copy moves.
    pub(super) async fn judge(&self, old: &Arc<Store>, new: &Arc<Store>) -> Verdict {
        let (shard, sequence) = (self.shard, self.built.sequence);
        if let Some(reason) = &self.unreadable {
            return Verdict::NotCompared { reason: format!("the old copy cannot be read: {reason}") };
        }
        let suspects: Vec<StreamId> = self.suspects.streams.union(&self.touched).cloned().collect();
        let index_keys = self.suspects.index_keys.clone();
        let other = Arc::clone(old);
        let compared = blocking(new, move |new| {
            let stored = other.checkpoint(shard)?;
            let mut differ = BTreeSet::new();
            for stream_id in suspects {
                if !new.agrees(&other, shard, &stream_id)? {
                    differ.insert(stream_id);
                }
            }
            for key in index_keys {
                differ.extend(new.disputed(&other, shard, &key)?);
            }
            // All of them: there are few, and nearly every page of commits moves most.
            let settlers = new.differing_settlers(&other, shard)?;
            Ok((stored, differ, settlers))
        });
        match compared.await {
            Err(fault) => Verdict::NotCompared { reason: format!("the old copy cannot be read: {fault}") },
            Ok((stored, ..)) if stored.sequence != sequence => {
                let at = stored.sequence;
                Verdict::NotCompared {
                    reason: format!("the old copy was at {at}, being built again, the new one at {sequence}"),
                }
            }
            Ok((stored, differ, settlers)) if differ.is_empty() && settlers.is_empty() && stored == self.built => {
                Verdict::Equal { sequence, streams: self.suspects.compared }
            }
            Ok((_, differ, settlers)) => {
                let count = differ.len() as u64;
                if !settlers.is_empty() {
                    let named: Vec<_> = settlers.iter().take(NAMED_MAX).map(Did::as_str).collect();
                    error!(shard, sequence, count = settlers.len(), settlers = ?named, "SETTLERS' RECORDS WERE WRONG");
                }
                Verdict::Different { sequence, streams: differ.into_iter().take(NAMED_MAX).collect(), count }
            }
        }
    }
}

/// Whether the commit of a checkpoint is that of the stream, or neither can be read.
async fn is_of_stream(journal: &dyn Journal, shard: u16, stored: &Checkpoint) -> bool {
    loop {
        match unreadable::next(journal, shard, stored.sequence, 1).await {
            Ok(Next::Commits { page, .. }) => {
                let found = page.first().map(|found| (found.position.sequence, found.commit_id.as_str()));
                return found == Some((stored.sequence, &*stored.commit_id));
            }
            Ok(Next::Unreadable(_)) => return stored.commit_id == NO_COMMIT,
            Err(ReadError::Unreadable { .. }) => return false,
            Err(ReadError::Unavailable(reason)) => {
                warn!(shard, reason, "the rebuild waits for its stream");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
