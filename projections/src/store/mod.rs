//! The projection store: a sled database with one tree a shard, data and checkpoint in the same batch.
//!
//! A tree holds six kinds of keys, told apart by their first byte: the checkpoint, a view for each payment, a view for
//! each quote-request batch, a mark in the place of a view for each of either whose stream cannot be read, an empty
//! entry for each that is not at rest, as far as is known, and one for each owner of a payment. Values are a format version byte and then postcard.
//!
//! A stream's commits are numbered without gaps, so the versions of all views of a shard add up to the commits that
//! were ever applied to them. The checkpoint carries that number, and [`Store::verify`] compares: a page that sled lost
//! or took from an older state shows as a difference.

mod apply;
mod check;
mod opening;

use std::{
    any::Any,
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use events::{PaymentId, QuoteRequestId, StreamId};

use crate::{
    entry::{CHECKPOINT, OPEN_PREFIX, PAYMENT_PREFIX, QUOTE_REQUEST_PREFIX, UNREADABLE_PREFIX, decode, key, stream_of},
    fault::Fault,
    owner_index::{self, OwnedSlice, Place},
    quote_request::QuoteRequestView,
    view::PaymentView,
};

pub(crate) use self::apply::Pending;

const SHARDS: &[u8] = b"shards";
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
        Self { db, trees: RwLock::default(), generation, rebuilt_from: None }
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
        // Behind the trees, so that none that was noted is missing. Fewer are never noted than were before: a database that
        // was made from more is not used.
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

    /// The places of an owner's payments in the shard, newest first.
    pub(crate) fn owned_places(
        &self,
        shard: u16,
        slice: &OwnedSlice,
    ) -> Result<Box<dyn Iterator<Item = Result<Place, Fault>>>, Fault> {
        let mut keys = guarded(|| Ok(self.tree(shard)?.range(slice.keys()).keys()))?;
        let read =
            std::iter::from_fn(move || guarded(|| keys.next_back().transpose().map_err(Fault::from)).transpose());
        Ok(Box::new(read.map(|key| owner_index::place_of(&key?))))
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

    /// Takes a key out of the index of owners, as a page that sled lost would.
    #[cfg(test)]
    pub(crate) fn lose_owner_key(&self, shard: u16) {
        let tree = self.tree(shard).unwrap();
        let key = tree.scan_prefix([owner_index::OWNER_PREFIX]).keys().next().unwrap().unwrap();
        tree.remove(key).unwrap();
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
