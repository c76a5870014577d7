//! Checks of what is stored: by its own accounts, and against another copy.

use std::collections::BTreeSet;

use events::StreamId;

use crate::{
    entry::{
        ENTRY_PREFIXES, OPEN_PREFIX, PAYMENT_PREFIX, QUOTE_REQUEST_PREFIX, UNREADABLE_PREFIX, View, decode, key,
        stream_of, view_key,
    },
    fault::Fault,
    owner_index::{KeySum, OWNER_PREFIX},
    unreadable::UnreadableRecord,
};

use super::{Checkpoint, Store, guarded, is_marked, read_checkpoint};

impl Store {
    /// The streams of the shard whose entries here and in `other` are not the same bytes, and how many entries there are
    /// here. Streams that move meanwhile may be among them.
    pub(crate) fn differences(&self, other: &Self, shard: u16) -> Result<(BTreeSet<StreamId>, u64), Fault> {
        guarded(|| {
            let (ours, theirs) = (self.tree(shard)?, other.tree(shard)?);
            let (mut differ, mut entries) = (BTreeSet::new(), 0);
            for prefix in ENTRY_PREFIXES {
                for entry in ours.scan_prefix([prefix]) {
                    let (key, value) = entry?;
                    entries += u64::from(prefix != OPEN_PREFIX && prefix != OWNER_PREFIX);
                    if theirs.get(&key)?.as_ref() != Some(&value) {
                        differ.insert(stream_of(&key)?);
                    }
                }
                for key in theirs.scan_prefix([prefix]).keys() {
                    let key = key?;
                    if !ours.contains_key(&key)? {
                        differ.insert(stream_of(&key)?);
                    }
                }
            }
            Ok((differ, entries))
        })
    }

    /// Whether a stream's entries here and in `other` are the same bytes.
    pub(crate) fn agrees(&self, other: &Self, shard: u16, stream_id: &StreamId) -> Result<bool, Fault> {
        guarded(|| {
            let (ours, theirs) = (self.tree(shard)?, other.tree(shard)?);
            let id = stream_id.as_str();
            let mut keys = vec![view_key(stream_id), key(OPEN_PREFIX, id), key(UNREADABLE_PREFIX, id)];
            for tree in [&ours, &theirs] {
                keys.extend(View::read(tree, stream_id)?.iter().flat_map(View::owner_keys));
            }
            for key in keys {
                if ours.get(&key)? != theirs.get(&key)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Reads the whole shard and checks that it is what applying `commits` commits must have left.
    pub(crate) fn verify(&self, shard: u16) -> Result<Checkpoint, Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            let checkpoint = read_checkpoint(tree)?;
            let (mut commits, mut open, mut owners) = (0, 0, KeySum::default());
            for entry in tree.scan_prefix([PAYMENT_PREFIX]).chain(tree.scan_prefix([QUOTE_REQUEST_PREFIX])) {
                let (key, value) = entry?;
                let view = View::decode(&key, &value)?;
                let stream_id = view.stream_id();
                if stream_of(&key)? != stream_id {
                    return Err(Fault::Damaged(format!("the view of {stream_id} stands under another key")));
                }
                commits += view.version();
                view.owner_keys().iter().for_each(|key| owners.add(key));
                open += u64::from(!view.at_rest());
            }
            if commits != checkpoint.commits {
                let stated = checkpoint.commits;
                return Err(Fault::Damaged(format!("views hold {commits} commits, the checkpoint says {stated}")));
            }
            for entry in tree.scan_prefix([UNREADABLE_PREFIX]) {
                let (key, value) = entry?;
                let (stream_id, _) = (stream_of(&key)?, decode::<UnreadableRecord>(&value)?);
                if View::read(tree, &stream_id)?.is_some() {
                    return Err(Fault::Damaged(format!("{stream_id} has a view although it cannot be read")));
                }
                open += 1;
            }
            let mut owned = KeySum::default();
            for key in tree.scan_prefix([OWNER_PREFIX]).keys() {
                owned.add(&key?);
            }
            if owned != owners {
                return Err(Fault::Damaged(format!("the index of owners holds {owned:?}, the views {owners:?}")));
            }
            let mut indexed = 0;
            for key in tree.scan_prefix([OPEN_PREFIX]).keys() {
                let stream_id = stream_of(&key?)?;
                let shown_open = View::read(tree, &stream_id)?.is_some_and(|view| !view.at_rest());
                if !shown_open && !is_marked(tree, &stream_id)? {
                    return Err(Fault::Damaged(format!("{stream_id} is in the index of what is open but not open")));
                }
                indexed += 1;
            }
            if indexed != open {
                return Err(Fault::Damaged(format!("{open} streams are open, the index holds {indexed}")));
            }
            Ok(checkpoint)
        })
    }
}
