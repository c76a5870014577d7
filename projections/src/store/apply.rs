//! Applying commits: a page in one batch, with the checkpoint.

use std::collections::{HashMap, hash_map::Entry};

use sled::Batch;
use tracing::error;

use events::{CommitId, StreamId};
use journal::Recorded;

use crate::{
    entry::{CHECKPOINT, OPEN_PREFIX, UNREADABLE_PREFIX, View, encode, key, view_key},
    fault::Fault,
    unreadable::{NO_COMMIT, Unreadable, UnreadableRecord},
    view::Applied,
};

use super::{Page, Store, guarded, is_marked, marked, read_checkpoint};

impl Store {
    /// Applies a page of commits in one batch. Commits at or below the checkpoint are skipped, and so are those of streams
    /// that cannot be read, and marks.
    pub(crate) fn apply(&self, shard: u16, page: &[Recorded]) -> Result<Page, Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            let mut checkpoint = read_checkpoint(tree)?;
            let mut streams = HashMap::<&StreamId, Touched>::new();
            let applied_before = checkpoint.sequence;
            let marked = marked(tree)?;
            for recorded in page.iter().filter(|recorded| recorded.position.sequence > applied_before) {
                // A mark says that the stream begins elsewhere, and nothing of it.
                if !recorded.is_moved() && !marked.contains(&recorded.stream_id) {
                    checkpoint.commits += u64::from(apply_commit(tree, &mut streams, recorded)?);
                }
                checkpoint.sequence = recorded.position.sequence;
                checkpoint.commit_id = recorded.commit_id.as_str().to_owned();
            }
            if checkpoint.sequence == applied_before {
                return Ok(Page { checkpoint, changed: Vec::new() });
            }
            // A batch holds up everything else that this process does with sled, so nothing is in it that changes nothing.
            streams.retain(|_, touched| touched.changed);
            let mut batch = Batch::default();
            for (stream_id, Touched { view, was_open, .. }) in &streams {
                batch.insert(view_key(stream_id), view.encode()?);
                match (was_open, !view.at_rest()) {
                    (true, false) => batch.remove(key(OPEN_PREFIX, stream_id.as_str())),
                    (false, true) => batch.insert(key(OPEN_PREFIX, stream_id.as_str()), &[]),
                    (true, true) | (false, false) => {}
                }
            }
            batch.insert(CHECKPOINT, encode(&checkpoint)?);
            tree.apply_batch(batch)?;
            Ok(Page { checkpoint, changed: streams.into_keys().cloned().collect() })
        })
    }

    /// As [`Store::apply`], stepping over commits that do not follow on what was applied.
    pub(crate) fn apply_what_follows(&self, shard: u16, page: &[Recorded]) -> Result<Page, Fault> {
        let mut changed = Vec::new();
        loop {
            let fault = match self.apply(shard, page) {
                Ok(applied) => {
                    changed.extend(applied.changed);
                    return Ok(Page { checkpoint: applied.checkpoint, changed });
                }
                Err(fault) => fault,
            };
            let reason = fault.to_string();
            let Fault::Gap { stream_id, sequence, .. } = fault else { return Err(fault) };
            let at = page.partition_point(|recorded| recorded.position.sequence < sequence);
            changed.extend(self.apply(shard, &page[..at])?.changed);
            let commit_id = page.get(at).map(|recorded| recorded.commit_id.clone());
            let unreadable =
                Unreadable { stream_id: Some(stream_id), commit_id, record: UnreadableRecord { sequence, reason } };
            changed.extend(self.step_over(shard, &unreadable)?.changed);
        }
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
}

/// A stream of which a page holds commits.
struct Touched {
    view: View,
    /// Whether it is in the index of what is open.
    was_open: bool,
    /// Whether the view is another than the stored one.
    changed: bool,
}

/// Takes one commit into the views of a page; `false` when its stream's view holds it already.
fn apply_commit<'a>(
    tree: &sled::Tree,
    streams: &mut HashMap<&'a StreamId, Touched>,
    recorded: &'a Recorded,
) -> Result<bool, Fault> {
    let gap = || Fault::Gap {
        stream_id: recorded.stream_id.clone(),
        version: recorded.position.version,
        sequence: recorded.position.sequence,
    };
    let touched = match streams.entry(&recorded.stream_id) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => match View::read(tree, &recorded.stream_id)? {
            Some(view) => entry.insert(Touched { was_open: !view.at_rest(), view, changed: false }),
            None => {
                let view = View::begin(recorded).ok_or_else(gap)?;
                entry.insert(Touched { view, was_open: false, changed: true });
                return Ok(true);
            }
        },
    };
    match touched.view.apply(recorded) {
        Applied::Next => {
            touched.changed = true;
            Ok(true)
        }
        Applied::Skipped => Ok(false),
        Applied::Gap => Err(gap()),
    }
}
