//! The projection store: a sled database with one tree a shard, data and checkpoint in the same batch.
//!
//! A tree holds eleven kinds of keys, told apart by their first byte: the checkpoint, a view for each payment, a view
//! for each quote-request batch, a mark in the place of a view for each of either whose stream cannot be read, an empty
//! entry for each that is not at rest, as far as is known, empty entries of the indexes of payments: one for each
//! owner of a payment, one for the time of its submission, and one for each text by which it is searched for, and two
//! parts of a record for each settler, with a sum over all of them. Values are a format version byte and then postcard.
//!
//! A stream's commits are numbered without gaps, so the versions of all views of a shard add up to the commits that
//! were ever applied to them. The checkpoint carries that number, and [`Store::verify`] compares: a page that sled lost
//! or took from an older state shows as a difference. Records are not numbered, and are compared with their sum.

mod apply;
mod check;
mod opening;
mod records;

use std::{
    any::Any,
    collections::BTreeSet,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use events::{PaymentId, QuoteRequestId, StreamId};

use crate::{
    entry::{
        CHECKPOINT, OPEN_PREFIX, PAYMENT_PREFIX, QUOTE_REQUEST_PREFIX, UNREADABLE_PREFIX, View, decode, key, stream_of,
    },
    fault::Fault,
    place::Place,
    quote_request::QuoteRequestView,
    view::PaymentView,
};

pub(crate) use self::{apply::Pending, check::Differences};

const SHARDS: &[u8] = b"shards";
/// There where the index for search is kept.
const SEARCHED: &[u8] = b"searched";

/// Far more than a commit's id has.
const COMMIT_ID_BYTES_MAX: usize = 64;

/// How far a shard was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// Stream sequence of the last commit applied; 0 for none.
    pub(crate) sequence: u64,
    /// Its commit id, by which a stream that was replaced is told from the one that was applied.
    pub(crate) commit_id: String,
    /// Commits applied since the first, marks not counted.
    pub(crate) commits: u64,
}

impl Checkpoint {
    /// As it was stored by a version of this program that stored views otherwise. Its own form never changed.
    fn of_any_format(stored: &[u8]) -> Option<Self> {
        let (_, body) = stored.split_first()?;
        let (checkpoint, rest) = postcard::take_from_bytes::<Self>(body).ok()?;
        let is_id = (1..=COMMIT_ID_BYTES_MAX).contains(&checkpoint.commit_id.len());
        (rest.is_empty() && checkpoint.sequence > 0 && is_id).then_some(checkpoint)
    }
}

/// The outcome of applying a page.
#[derive(Debug)]
pub(crate) struct Page {
    /// The checkpoint now.
    pub(crate) checkpoint: Checkpoint,
    /// Payments and batches that have a new view.
    pub(crate) changed: Vec<StreamId>,
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Store {
    db: sled::Db,
    /// Those of the shards from 0 on, as many as were needed so far.
    trees: RwLock<Vec<sled::Tree>>,
    generation: u64,
    rebuilt_from: Option<u64>,
    /// Whether the index for search is kept.
    searched: bool,
}

impl Store {
    /// Number of the generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Number of the generation that this one was built beside, to take its place.
    pub(crate) fn rebuilt_from(&self) -> Option<u64> {
        self.rebuilt_from
    }

    fn over(db: sled::Db, generation: u64) -> Self {
        Self { db, trees: RwLock::default(), generation, rebuilt_from: None, searched: false }
    }

    /// The keys of a view in the index for search, where that is kept.
    fn search_keys(&self, view: &View) -> Vec<Vec<u8>> {
        if self.searched { view.search_keys() } else { Vec::new() }
    }

    /// The keys of a view in all indexes.
    fn index_keys(&self, view: &View) -> impl Iterator<Item = Vec<u8>> + use<> {
        view.lasting_keys().into_iter().chain(self.search_keys(view))
    }

    fn trees(&self) -> RwLockReadGuard<'_, Vec<sled::Tree>> {
        // Trees are only ever added, one by one.
        self.trees.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tree of a shard. The journal grows, so it may be needed for the first time.
    fn tree(&self, shard: u16) -> Result<sled::Tree, Fault> {
        if let Some(tree) = self.trees().get(usize::from(shard)) {
            return Ok(tree.clone());
        }
        self.open_trees(shard + 1)?;
        Ok(self.trees()[usize::from(shard)].clone())
    }

    /// Opens the trees of the first `shards` shards, and notes that they are there.
    fn open_trees(&self, shards: u16) -> Result<(), Fault> {
        let mut trees = self.trees.write().unwrap_or_else(PoisonError::into_inner);
        for shard in trees.len()..usize::from(shards) {
            trees.push(self.db.open_tree(format!("payments_{shard:02}"))?);
        }
        // Behind the trees, so that none that was noted is missing. Fewer are never noted than were before: a database
        // that was made from more is not used.
        self.db.insert(SHARDS, &(trees.len() as u16).to_be_bytes())?;
        Ok(())
    }

    /// The view of a payment.
    pub(crate) fn payment(&self, shard: u16, id: &PaymentId) -> Result<Option<PaymentView>, Fault> {
        guarded(|| read(&self.tree(shard)?, PAYMENT_PREFIX, id.as_str()))
    }

    /// The view of a batch.
    pub(crate) fn quote_request(&self, shard: u16, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Fault> {
        guarded(|| read(&self.tree(shard)?, QUOTE_REQUEST_PREFIX, id.as_str()))
    }

    /// Every payment and batch of the shard that is not at rest.
    pub(crate) fn open_streams(&self, shard: u16) -> Result<Vec<StreamId>, Fault> {
        guarded(|| {
            let keys = self.tree(shard)?.scan_prefix([OPEN_PREFIX]).keys();
            keys.map(|key| stream_of(&key?)).collect()
        })
    }

    /// The places that keys in this range of an index of the shard end with, from the last one on.
    pub(crate) fn places(
        &self,
        shard: u16,
        keys: Range<Vec<u8>>,
    ) -> Result<impl Iterator<Item = Result<Place, Fault>> + use<>, Fault> {
        let mut keys = guarded(|| Ok(self.tree(shard)?.range(keys).keys()))?;
        let read =
            std::iter::from_fn(move || guarded(|| keys.next_back().transpose().map_err(Fault::from)).transpose());
        Ok(read.map(|key| Place::of_key(&key?)))
    }

    /// The places of the payments whose views' keys are in this range.
    pub(crate) fn places_of_ids(
        &self,
        shard: u16,
        keys: Range<Vec<u8>>,
    ) -> Result<impl Iterator<Item = Result<Place, Fault>> + use<>, Fault> {
        let mut views = guarded(|| Ok(self.tree(shard)?.range(keys)))?;
        let read = std::iter::from_fn(move || guarded(|| views.next().transpose().map_err(Fault::from)).transpose());
        Ok(read.map(|entry| Ok(Place::of(&decode(&entry?.1)?))))
    }

    /// How many batches of the shard are not at rest.
    pub(crate) fn open_quote_requests(&self, shard: u16) -> Result<usize, Fault> {
        guarded(|| {
            let keys = self.tree(shard)?.scan_prefix(key(OPEN_PREFIX, QuoteRequestId::PREFIX)).keys();
            keys.map(|key| key.map(|_| 1)).sum::<Result<usize, _>>().map_err(Fault::from)
        })
    }

    /// Whether a batch of the shard is not at rest; `None` where there is none with this id.
    pub(crate) fn quote_request_is_open(&self, shard: u16, id: &QuoteRequestId) -> Result<Option<bool>, Fault> {
        guarded(|| {
            let tree = self.tree(shard)?;
            // In this order, so that one that is stored in between is not taken for one at rest.
            if !tree.contains_key(key(QUOTE_REQUEST_PREFIX, id.as_str()))? {
                return Ok(None);
            }
            Ok(Some(tree.contains_key(key(OPEN_PREFIX, id.as_str()))?))
        })
    }

    /// Shows `visit` the view of every payment of the shard that is not at rest.
    pub(crate) fn visit_open_payments(&self, shard: u16, mut visit: impl FnMut(PaymentView)) -> Result<(), Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            for key in tree.scan_prefix([OPEN_PREFIX]).keys() {
                // One that has come to rest since the key was read is still shown as it is.
                if let StreamId::Payment(payment_id) = stream_of(&key?)?
                    && let Some(view) = read(tree, PAYMENT_PREFIX, payment_id.as_str())?
                {
                    visit(view);
                }
            }
            Ok(())
        })
    }

    /// How far the shard was applied.
    pub(crate) fn checkpoint(&self, shard: u16) -> Result<Checkpoint, Fault> {
        guarded(|| read_checkpoint(&self.tree(shard)?))
    }

    /// The checkpoint of a shard whose views may be of an earlier format, where it says anything.
    pub(crate) fn witness(&self, shard: u16) -> Result<Option<Checkpoint>, Fault> {
        guarded(|| Ok(self.tree(shard)?.get(CHECKPOINT)?.and_then(|stored| Checkpoint::of_any_format(&stored))))
    }

    /// The streams of the shard that cannot be read.
    pub(crate) fn marked(&self, shard: u16) -> Result<BTreeSet<StreamId>, Fault> {
        guarded(|| marked(&self.tree(shard)?))
    }

    /// Empties a shard. Interrupted half way it fails [`Store::verify`], because the checkpoint goes first.
    pub(crate) fn reset(&self, shard: u16) -> Result<(), Fault> {
        guarded(|| {
            let tree = &self.tree(shard)?;
            tree.remove(CHECKPOINT)?;
            Ok(tree.clear()?)
        })
    }

    /// Puts on disk what was applied so far.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        guarded(|| self.db.flush().map(drop).map_err(Fault::from))
    }

    /// Replaces a payment's view by that of another state, as a fault of this program would.
    #[cfg(test)]
    pub(crate) fn falsify(&self, shard: u16, view: &PaymentView) {
        let key = key(PAYMENT_PREFIX, view.payment_id.as_str());
        self.tree(shard).unwrap().insert(key, crate::entry::encode(view).unwrap()).unwrap();
    }

    /// Takes out an entry whose key begins with `prefix`, as a page that sled lost would.
    #[cfg(test)]
    pub(crate) fn lose_key(&self, shard: u16, prefix: u8) -> (sled::IVec, sled::IVec) {
        let tree = self.tree(shard).unwrap();
        let entry = tree.scan_prefix([prefix]).next().unwrap().unwrap();
        tree.remove(&entry.0).unwrap();
        entry
    }

    /// Puts an entry where it was.
    #[cfg(test)]
    pub(crate) fn put_back(&self, shard: u16, (key, value): (sled::IVec, sled::IVec)) {
        self.tree(shard).unwrap().insert(key, value).unwrap();
    }

    /// Leaves a key in the index for search that the payment's view has no more.
    #[cfg(test)]
    pub(crate) fn leave_key(&self, shard: u16, view: &PaymentView) {
        let key = Place::of(view).key(&[crate::search_index::SEARCH_PREFIX, b'h', b'f', b'0']);
        self.tree(shard).unwrap().insert(key, &[]).unwrap();
    }

    /// Makes a view unreadable.
    #[cfg(test)]
    pub(crate) fn damage(&self, shard: u16, payment_id: &PaymentId) {
        self.tree(shard)
            .unwrap()
            .insert(key(PAYMENT_PREFIX, payment_id.as_str()), &[crate::entry::FORMAT + 1])
            .unwrap();
    }
}

/// sled panics on some damage where it could return an error; either way the database is of no use.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Fault::Storage(panic_text(panic.as_ref()))))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("no message"))
}

fn read_checkpoint(tree: &sled::Tree) -> Result<Checkpoint, Fault> {
    tree.get(CHECKPOINT)?.map_or_else(|| Ok(Checkpoint::default()), |value| decode(&value))
}

fn marked(tree: &sled::Tree) -> Result<BTreeSet<StreamId>, Fault> {
    tree.scan_prefix([UNREADABLE_PREFIX]).keys().map(|key| stream_of(&key?)).collect()
}

fn is_marked(tree: &sled::Tree, stream_id: &StreamId) -> Result<bool, Fault> {
    Ok(tree.contains_key(key(UNREADABLE_PREFIX, stream_id.as_str()))?)
}

fn read<T: DeserializeOwned>(tree: &sled::Tree, prefix: u8, id: &str) -> Result<Option<T>, Fault> {
    tree.get(key(prefix, id))?.map(|value| decode(&value)).transpose()
}

/// Runs sled's blocking work where it holds nobody up.
pub(crate) async fn blocking<T: Send + 'static>(
    store: &Arc<Store>,
    work: impl FnOnce(&Store) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let store = Arc::clone(store);
    let done = tokio::task::spawn_blocking(move || work(&store)).await;
    done.unwrap_or_else(|error| Err(Fault::Storage(error.to_string())))
}
