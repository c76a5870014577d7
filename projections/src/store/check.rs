//! Checks of what is stored: by its own accounts, and against another copy.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use events::StreamId;

use crate::{
    entry::{
        ENTRY_PREFIXES, INDEX_PREFIXES, OPEN_PREFIX, PAYMENT_PREFIX, QUOTE_REQUEST_PREFIX, UNREADABLE_PREFIX, View,
        decode, key, stream_of, view_key,
    },
    fault::Fault,
    search_index::SEARCH_PREFIX,
    unreadable::UnreadableRecord,
};

use super::{Checkpoint, Store, guarded, is_marked, read_checkpoint, records};

impl Store {
    /// What is not the same here and in `other`. What moves meanwhile may be among it.
    pub(crate) fn differences(&self, other: &Self, shard: u16) -> Result<Differences, Fault> {
        guarded(|| {
            let (ours, theirs) = (self.tree(shard)?, other.tree(shard)?);
            let mut found = Differences::default();
            for prefix in ENTRY_PREFIXES {
                for entry in ours.scan_prefix([prefix]) {
                    let (key, value) = entry?;
                    found.compared += u64::from(prefix != OPEN_PREFIX && !INDEX_PREFIXES.contains(&prefix));
                    if theirs.get(&key)?.as_ref() != Some(&value) {
                        found.add(&key)?;
                    }
                }
                for key in theirs.scan_prefix([prefix]).keys() {
                    let key = key?;
                    if !ours.contains_key(&key)? {
                        found.add(&key)?;
                    }
                }
            }
            Ok(found)
        })
    }

    /// The stream of a key of an index that is here or in `other` alone.
    pub(crate) fn disputed(&self, other: &Self, shard: u16, index_key: &[u8]) -> Result<Option<StreamId>, Fault> {
        guarded(|| {
            let (ours, theirs) = (self.tree(shard)?, other.tree(shard)?);
            let is_disputed = ours.contains_key(index_key)? != theirs.contains_key(index_key)?;
            is_disputed.then(|| stream_of(index_key)).transpose()
        })
    }

    /// Whether a stream's entries here and in `other` are the same bytes.
    pub(crate) fn agrees(&self, other: &Self, shard: u16, stream_id: &StreamId) -> Result<bool, Fault> {
        guarded(|| {
            let (ours, theirs) = (self.tree(shard)?, other.tree(shard)?);
            let id = stream_id.as_str();
            let mut keys = vec![view_key(stream_id), key(OPEN_PREFIX, id), key(UNREADABLE_PREFIX, id)];
            for tree in [&ours, &theirs] {
                keys.extend(View::read(tree, stream_id)?.iter().flat_map(|view| self.index_keys(view)));
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
            let (mut commits, mut open, mut stated) = (0, 0, KeySum::default());
            for entry in tree.scan_prefix([PAYMENT_PREFIX]).chain(tree.scan_prefix([QUOTE_REQUEST_PREFIX])) {
                let (key, value) = entry?;
                let view = View::decode(&key, &value)?;
                let stream_id = view.stream_id();
                if stream_of(&key)? != stream_id {
                    return Err(Fault::Damaged(format!("the view of {stream_id} stands under another key")));
                }
                commits += view.version();
                self.index_keys(&view).for_each(|key| stated.add(&key));
                open += u64::from(!view.at_rest());
            }
            if commits != checkpoint.commits {
                let applied = checkpoint.commits;
                return Err(Fault::Damaged(format!("views hold {commits} commits, the checkpoint says {applied}")));
            }
            for entry in tree.scan_prefix([UNREADABLE_PREFIX]) {
                let (key, value) = entry?;
                let (stream_id, _) = (stream_of(&key)?, decode::<UnreadableRecord>(&value)?);
                if View::read(tree, &stream_id)?.is_some() {
                    return Err(Fault::Damaged(format!("{stream_id} has a view although it cannot be read")));
                }
                open += 1;
            }
            records::verify(tree)?;
            let mut held = KeySum::default();
            for prefix in INDEX_PREFIXES {
                for key in tree.scan_prefix([prefix]).keys() {
                    held.add(&key?);
                }
            }
            let has_search = tree.scan_prefix([SEARCH_PREFIX]).next().is_some();
            if held != stated && has_search != self.searched {
                let (there, wanted) = if has_search { ("there", "not wanted") } else { ("not there", "wanted") };
                return Err(Fault::Damaged(format!("the index for search is {there}, and {wanted}")));
            }
            if held != stated {
                return Err(Fault::Damaged(format!("the indexes of payments hold {held:?}, the views {stated:?}")));
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

/// Keys of indexes that are kept of what is not the same in two copies. Where there are more, views differ, too, or all
/// is the work of one fault.
const INDEX_KEYS_KEPT: usize = 10_000;

/// What is not the same in two copies of a shard.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// Streams of which an entry is not the same bytes.
    pub(crate) streams: BTreeSet<StreamId>,
    /// Keys of indexes that only one copy has. Its view need not tell of them.
    pub(crate) index_keys: Vec<Vec<u8>>,
    /// Views and marks that were compared.
    pub(crate) compared: u64,
}

impl Differences {
    fn add(&mut self, key: &[u8]) -> Result<(), Fault> {
        self.streams.insert(stream_of(key)?);
        let is_of_index = key.first().is_some_and(|prefix| INDEX_PREFIXES.contains(prefix));
        if is_of_index && self.index_keys.len() < INDEX_KEYS_KEPT {
            self.index_keys.push(key.to_vec());
        }
        Ok(())
    }
}

/// A sum over keys in any order, by which those that are there are compared with those that should be.
#[derive(Debug, Default, PartialEq, Eq)]
struct KeySum {
    keys: u64,
    hashes: u64,
}

impl KeySum {
    fn add(&mut self, key: &[u8]) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.keys += 1;
        self.hashes = self.hashes.wrapping_add(hasher.finish());
    }
}
