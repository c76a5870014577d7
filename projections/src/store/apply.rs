//! Applying commits: pages are folded into views, which are stored in one batch, with the checkpoint.

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::{AtomicUsize, Ordering},
};

use sled::Batch;
use tracing::error;

use events::{CommitId, StreamId};
use journal::Recorded;

use crate::{
    entry::{CHECKPOINT, OPEN_PREFIX, UNREADABLE_PREFIX, View, encode, key, view_key},
    fault::Fault,
    record_deltas::RecordDeltas,
    unreadable::{NO_COMMIT, Next, Unreadable, UnreadableRecord},
    view::Applied,
};

use super::{Checkpoint, Page, Store, guarded, is_marked, marked, read_checkpoint, records};

/// Commits that are folded before they are stored while a shard has much to catch up with.
const PENDING_COMMITS: u64 = 8_192;
/// Streams of one shard, with views of some kilobytes each, and settlers, with records of as much, and both of all shards,
/// that are folded and not stored.
const PENDING_STREAMS: usize = 1_024;
const PENDING_STREAMS_OF_ALL: usize = 4_096;

/// How many there are of all shards.
static PENDING_NOW: AtomicUsize = AtomicUsize::new(0);

/// Commits of one shard that are folded into views and not stored yet: nobody sees anything of them. Who has much to catch
/// up with stores the views of many pages at once, as most of them change in several.
#[derive(Default)]
pub(crate) struct Pending {
    /// What is stored, once it was looked at, and what is to be stored.
    progress: Option<Progress>,
    streams: HashMap<StreamId, Touched>,
    /// What is to be added to settlers' records.
    records: RecordDeltas,
    /// Streams that cannot be read.
    marked: BTreeSet<StreamId>,
    /// The part of [`PENDING_NOW`] that is this one's.
    counted: usize,
}

struct Progress {
    stored: Checkpoint,
    folded: Checkpoint,
}

impl Pending {
    /// Sequence of the last commit that was taken in; `None` for none.
    pub(crate) fn sequence(&self) -> Option<u64> {
        let Progress { stored, folded } = self.progress.as_ref()?;
        (folded.sequence > stored.sequence).then_some(folded.sequence)
    }

    /// Whether there is as much of it as should be kept in memory.
    pub(crate) fn is_full(&self) -> bool {
        let commits = self.progress.as_ref().map_or(0, |progress| progress.folded.sequence - progress.stored.sequence);
        let all = PENDING_NOW.load(Ordering::Relaxed);
        commits >= PENDING_COMMITS || self.entries() >= PENDING_STREAMS || all >= PENDING_STREAMS_OF_ALL
    }

    /// Streams and settlers.
    fn entries(&self) -> usize {
        self.streams.len() + self.records.len()
    }

    fn count(&mut self) {
        let more = self.entries() - self.counted;
        PENDING_NOW.fetch_add(more, Ordering::Relaxed);
        self.counted += more;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        PENDING_NOW.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

impl Store {
    /// Folds a page of commits into `pending`. Commits at or below its checkpoint are skipped, and so are those of streams
    /// that cannot be read, and marks.
    ///
    /// # Errors
    /// [`Fault::Gap`] for a commit that does not follow on what was folded; those before it are folded then.
    pub(crate) fn fold(&self, shard: u16, pending: &mut Pending, page: &[Recorded]) -> Result<(), Fault> {
        let folded = guarded(|| {
            let tree = &self.tree(shard)?;
            if pending.progress.is_none() {
                let stored = read_checkpoint(tree)?;
                pending.marked = marked(tree)?;
                pending.progress = Some(Progress { folded: stored.clone(), stored });
            }
            let Pending { progress: Some(Progress { folded, .. }), streams, records, marked, .. } = pending else {
                return Ok(());
            };
            let before = folded.sequence;
            for recorded in page.iter().filter(|recorded| recorded.position.sequence > before) {
                // A mark says that the stream begins elsewhere, and nothing of it.
                if !recorded.is_moved() && !marked.contains(&recorded.stream_id) {
                    folded.commits += u64::from(apply_commit(self, tree, streams, records, recorded)?);
                }
                folded.sequence = recorded.position.sequence;
                folded.commit_id.clear();
                folded.commit_id.push_str(recorded.commit_id.as_str());
            }
            Ok(())
        });
        pending.count();
        folded
    }

    /// As [`Store::fold`], stepping over commits that do not follow on what was folded; what is stored for that is told.
    pub(crate) fn fold_what_follows(
        &self,
        shard: u16,
        pending: &mut Pending,
        page: &[Recorded],
    ) -> Result<Vec<StreamId>, Fault> {
        let mut changed = Vec::new();
        loop {
            let Err(fault) = self.fold(shard, pending, page) else { return Ok(changed) };
            let reason = fault.to_string();
            let Fault::Gap { stream_id, sequence, .. } = fault else { return Err(fault) };
            changed.extend(self.store(shard, std::mem::take(pending))?.changed);
            let at = page.partition_point(|recorded| recorded.position.sequence < sequence);
            let commit_id = page.get(at).map(|recorded| recorded.commit_id.clone());
            let unreadable =
                Unreadable { stream_id: Some(stream_id), commit_id, record: UnreadableRecord { sequence, reason } };
            changed.extend(self.step_over(shard, &unreadable)?.changed);
        }
    }

    /// Takes in what comes next. It is stored unless who asks `lags`, and there may be more in memory; with `skip_gaps`, what
    /// does not follow on what was folded is stepped over.
    pub(crate) fn take(
        &self,
        shard: u16,
        mut pending: Pending,
        next: &Next,
        skip_gaps: bool,
        lags: bool,
    ) -> Result<Taken, Fault> {
        let mut changed = Vec::new();
        match next {
            Next::Commits { page, .. } if skip_gaps => {
                changed.extend(self.fold_what_follows(shard, &mut pending, page)?);
            }
            Next::Commits { page, .. } => self.fold(shard, &mut pending, page)?,
            Next::Unreadable(unreadable) => {
                changed.extend(self.store(shard, std::mem::take(&mut pending))?.changed);
                changed.extend(self.step_over(shard, unreadable)?.changed);
            }
        }
        if lags && changed.is_empty() && !pending.is_full() {
            return Ok(Taken { pending, stored: None });
        }
        let Page { checkpoint, changed: more } = self.store(shard, pending)?;
        changed.extend(more);
        Ok(Taken { pending: Pending::default(), stored: Some(Page { checkpoint, changed }) })
    }

    /// Stores what was folded in one batch, with the checkpoint.
    pub(crate) fn store(&self, shard: u16, mut pending: Pending) -> Result<Page, Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            let (progress, mut streams) = (pending.progress.take(), std::mem::take(&mut pending.streams));
            let now = read_checkpoint(tree)?;
            let Some(Progress { stored, folded }) = progress.filter(|at| at.folded.sequence > at.stored.sequence)
            else {
                return Ok(Page { checkpoint: now, changed: Vec::new() });
            };
            if now != stored {
                let (at, began) = (now.sequence, stored.sequence);
                return Err(Fault::Damaged(format!("views were folded from {began} on, what is stored is at {at}")));
            }
            // A batch holds up everything else that this process does with sled, so nothing is in it that changes nothing.
            streams.retain(|_, touched| touched.changed);
            let mut batch = Batch::default();
            for (stream_id, Touched { view, was_open, stored_search_keys, .. }) in &streams {
                batch.insert(view_key(stream_id), view.encode()?);
                self.index(&mut batch, view, stored_search_keys.as_deref());
                match (was_open, !view.at_rest()) {
                    (true, false) => batch.remove(key(OPEN_PREFIX, stream_id.as_str())),
                    (false, true) => batch.insert(key(OPEN_PREFIX, stream_id.as_str()), &[]),
                    (true, true) | (false, false) => {}
                }
            }
            records::add(tree, &mut batch, &pending.records)?;
            batch.insert(CHECKPOINT, encode(&folded)?);
            tree.apply_batch(batch)?;
            Ok(Page { checkpoint: folded, changed: streams.into_keys().collect() })
        })
    }

    /// Steps over a message that cannot be read. Whatever it belongs to has no view any more, and counts as open.
    pub(crate) fn step_over(&self, shard: u16, unreadable: &Unreadable) -> Result<Page, Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            let mut checkpoint = read_checkpoint(tree)?;
            let Unreadable { stream_id, commit_id, record } = unreadable;
            if record.sequence <= checkpoint.sequence {
                return Ok(Page { checkpoint, changed: Vec::new() });
            }
            checkpoint.sequence = record.sequence;
            checkpoint.commit_id = commit_id.as_ref().map_or(NO_COMMIT, CommitId::as_str).to_owned();
            let mut batch = Batch::default();
            // The first message at fault is the one to look at.
            if let Some(stream_id) = stream_id
                && !is_marked(tree, stream_id)?
            {
                if let Some(view) = View::read(tree, stream_id)? {
                    checkpoint.commits = checkpoint.commits.saturating_sub(view.version());
                    batch.remove(view_key(stream_id));
                    self.index_keys(&view).for_each(|key| batch.remove(key));
                }
                batch.insert(key(OPEN_PREFIX, stream_id.as_str()), &[]);
                batch.insert(key(UNREADABLE_PREFIX, stream_id.as_str()), encode(record)?);
            }
            batch.insert(CHECKPOINT, encode(&checkpoint)?);
            tree.apply_batch(batch)?;
            let (sequence, reason) = (record.sequence, &record.reason);
            let of = stream_id.as_ref().map_or("nobody", StreamId::as_str);
            error!(
                shard,
                sequence, of, reason, "UNREADABLE MESSAGE: whatever it belongs to has no view; the others go on"
            );
            Ok(Page { checkpoint, changed: stream_id.iter().cloned().collect() })
        })
    }

    /// Puts what indexes lack of a view, and takes out what its earlier form had and it has no more.
    fn index(&self, batch: &mut Batch, view: &View, stored_search_keys: Option<&[Vec<u8>]>) {
        let lasting = stored_search_keys.is_none().then(|| view.lasting_keys());
        lasting.into_iter().flatten().for_each(|key| batch.insert(key, &[]));
        let (stored, keys) = (stored_search_keys.unwrap_or_default(), self.search_keys(view));
        stored.iter().filter(|key| !keys.contains(key)).for_each(|key| batch.remove(&key[..]));
        keys.into_iter().filter(|key| !stored.contains(key)).for_each(|key| batch.insert(key, &[]));
    }
}

/// The outcome of [`Store::take`].
pub(crate) struct Taken {
    /// What is folded and not stored.
    pub(crate) pending: Pending,
    /// What is stored now, where anything was.
    pub(crate) stored: Option<Page>,
}

/// A stream of which commits are folded.
struct Touched {
    view: View,
    /// Whether it is in the index of what is open.
    was_open: bool,
    /// The keys of the stored one in the index for search; `None` where there is no stored one.
    stored_search_keys: Option<Vec<Vec<u8>>>,
    /// Whether the view is another than the stored one.
    changed: bool,
}

/// Takes one commit into the views that are folded; `false` when its stream's view holds it already.
fn apply_commit(
    store: &Store,
    tree: &sled::Tree,
    streams: &mut HashMap<StreamId, Touched>,
    records: &mut RecordDeltas,
    recorded: &Recorded,
) -> Result<bool, Fault> {
    let gap = || Fault::Gap {
        stream_id: recorded.stream_id.clone(),
        version: recorded.position.version,
        sequence: recorded.position.sequence,
    };
    let touched = match streams.get_mut(&recorded.stream_id) {
        Some(touched) => touched,
        None => match View::read(tree, &recorded.stream_id)? {
            Some(view) => {
                let (was_open, stored_search_keys) = (!view.at_rest(), Some(store.search_keys(&view)));
                let touched = Touched { view, was_open, stored_search_keys, changed: false };
                streams.entry(recorded.stream_id.clone()).or_insert(touched)
            }
            None => {
                let view = View::begin(recorded, records).ok_or_else(gap)?;
                let touched = Touched { view, was_open: false, stored_search_keys: None, changed: true };
                streams.insert(recorded.stream_id.clone(), touched);
                return Ok(true);
            }
        },
    };
    match touched.view.apply(recorded, records) {
        Applied::Next => {
            touched.changed = true;
            Ok(true)
        }
        Applied::Skipped => Ok(false),
        Applied::Gap => Err(gap()),
    }
}
