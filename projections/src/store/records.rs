//! Settlers' records in a tree.
//!
//! A record is stored in two parts, each as a record in which the other part is empty: what every auction adds to is
//! small, and the lists, of some kilobytes, change with the end of an award alone. A sum over all of both kinds stands
//! beside them, by which one that is lost or altered is noticed.

use std::{collections::BTreeSet, ops::Bound};

use serde::{Deserialize, Serialize};
use sled::Batch;

use events::{Did, Hash32};
use sagas::settler_record::SettlerRecord;

use crate::{
    entry::{RECORD_LISTS_PREFIX, RECORD_PREFIX, RECORD_SUM, decode, encode, key},
    fault::Fault,
    record_deltas::RecordDeltas,
};

use super::{Store, guarded};

impl Store {
    /// What the shard adds to the record of `settler`; `None` where that has none in it.
    pub(crate) fn settler_record(&self, shard: u16, settler: &Did) -> Result<Option<SettlerRecord>, Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            let counts = tree.get(key(RECORD_PREFIX, settler.as_str()))?;
            counts.map(|counts| whole(tree, settler, &counts)).transpose()
        })
    }

    /// The first `most` settlers behind `after` in the order of their DIDs, each with its record in the shard.
    pub(crate) fn settler_records(
        &self,
        shard: u16,
        after: Option<&Did>,
        most: usize,
    ) -> Result<Vec<(Did, SettlerRecord)>, Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            let first = match after {
                Some(after) => Bound::Excluded(key(RECORD_PREFIX, after.as_str())),
                None => Bound::Included(vec![RECORD_PREFIX]),
            };
            let entries = tree.range((first, Bound::Excluded(vec![RECORD_PREFIX + 1]))).take(most);
            let record = |entry: sled::Result<(sled::IVec, sled::IVec)>| {
                let (key, counts) = entry?;
                let settler = settler_of(&key)?;
                let record = whole(tree, &settler, &counts)?;
                Ok((settler, record))
            };
            entries.map(record).collect()
        })
    }

    /// Settlers whose records here and in `other` are not the same bytes.
    pub(crate) fn differing_settlers(&self, other: &Self, shard: u16) -> Result<BTreeSet<Did>, Fault> {
        guarded(|| {
            let (ours, theirs) = (self.tree(shard)?, other.tree(shard)?);
            let mut found = BTreeSet::new();
            for prefix in [RECORD_PREFIX, RECORD_LISTS_PREFIX] {
                for (one, another) in [(&ours, &theirs), (&theirs, &ours)] {
                    for entry in one.scan_prefix([prefix]) {
                        let (key, value) = entry?;
                        if another.get(&key)?.as_ref() != Some(&value) {
                            found.insert(settler_of(&key)?);
                        }
                    }
                }
            }
            Ok(found)
        })
    }

    /// Adds to a settler's record what no commit did, and to the sum, as a fault of this program would.
    #[cfg(test)]
    pub(crate) fn falsify_record(&self, shard: u16, settler: &Did) {
        let (tree, mut batch, mut records) = (self.tree(shard).unwrap(), Batch::default(), RecordDeltas::default());
        records.award(settler, "payer", crate::view::AwardStep::Acknowledged);
        add(&tree, &mut batch, &records).unwrap();
        tree.apply_batch(batch).unwrap();
    }
}

/// Puts into `batch` the records of the settlers that `records` adds to, and their sum.
pub(super) fn add(tree: &sled::Tree, batch: &mut Batch, records: &RecordDeltas) -> Result<(), Fault> {
    if records.len() == 0 {
        return Ok(());
    }
    let mut sum = stored_sum(tree)?;
    for (settler, delta) in records.all() {
        let lists = SettlerRecord { outcomes: delta.outcomes.clone(), times: delta.times.clone(), ..<_>::default() };
        let counts = SettlerRecord { outcomes: Vec::new(), times: Vec::new(), ..delta.clone() };
        for (prefix, part) in [(RECORD_PREFIX, counts), (RECORD_LISTS_PREFIX, lists)] {
            if prefix == RECORD_LISTS_PREFIX && part == SettlerRecord::default() {
                continue;
            }
            let key = key(prefix, settler.as_str());
            let stored = tree.get(&key)?;
            let mut record = stored.as_deref().map_or_else(|| Ok(SettlerRecord::default()), decode)?;
            record.merge(&part);
            let value = encode(&record)?;
            if let Some(stored) = stored {
                sum.take(&key, &stored);
            }
            sum.add(&key, &value);
            batch.insert(key, value);
        }
    }
    batch.insert(RECORD_SUM, encode(&sum)?);
    Ok(())
}

/// Checks the records of a tree: each can be read, and their sum is the stored one.
pub(super) fn verify(tree: &sled::Tree) -> Result<(), Fault> {
    let mut found = RecordSum::default();
    for prefix in [RECORD_PREFIX, RECORD_LISTS_PREFIX] {
        for entry in tree.scan_prefix([prefix]) {
            let (key, value) = entry?;
            settler_of(&key)?;
            decode::<SettlerRecord>(&value)?;
            found.add(&key, &value);
        }
    }
    let stored = stored_sum(tree)?;
    if found != stored {
        return Err(Fault::Damaged(format!("the settlers' records hold {found:?}, their sum says {stored:?}")));
    }
    Ok(())
}

fn stored_sum(tree: &sled::Tree) -> Result<RecordSum, Fault> {
    tree.get(RECORD_SUM)?.map_or_else(|| Ok(RecordSum::default()), |value| decode(&value))
}

/// The record of which these are the counts.
fn whole(tree: &sled::Tree, settler: &Did, counts: &[u8]) -> Result<SettlerRecord, Fault> {
    let mut record: SettlerRecord = decode(counts)?;
    if let Some(lists) = tree.get(key(RECORD_LISTS_PREFIX, settler.as_str()))? {
        record.merge(&decode(&lists)?);
    }
    Ok(record)
}

fn settler_of(key: &[u8]) -> Result<Did, Fault> {
    let text = key.get(1..).and_then(|did| std::str::from_utf8(did).ok()).and_then(|did| did.parse().ok());
    text.ok_or_else(|| Fault::Damaged("a key of a record holds no DID".to_owned()))
}

/// A sum over keys and values in any order. It is stored, so its hash is one that stays what it is.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct RecordSum {
    entries: u64,
    hashes: u64,
}

impl RecordSum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.entries = self.entries.wrapping_add(1);
        self.hashes = self.hashes.wrapping_add(entry_hash(key, value));
    }

    fn take(&mut self, key: &[u8], value: &[u8]) {
        self.entries = self.entries.wrapping_sub(1);
        self.hashes = self.hashes.wrapping_sub(entry_hash(key, value));
    }
}

fn entry_hash(key: &[u8], value: &[u8]) -> u64 {
    // No DID has a byte of zero.
    let Hash32(hash) = Hash32::sha256([key, &[0], value].concat());
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_be_bytes(first)
}
