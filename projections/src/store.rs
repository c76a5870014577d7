//! The sled database: one tree a shard, data and checkpoint in the same batch.
//!
//! A tree holds five kinds of keys, told apart by their first byte: the checkpoint, a view for each payment, a view for
//! each quote-request batch, a mark in the place of a view for each of either whose stream cannot be read, and an empty
//! entry for each that is not at rest, as far as is known. Values are a format version byte and then postcard.
//!
//! A stream's commits are numbered without gaps, so the versions of all views of a shard add up to the commits that
//! were ever applied to them. The checkpoint carries that number, and [`Store::verify`] compares: a page that sled lost
//! or took from an older state shows as a difference.

use std::{
    any::Any,
    collections::{BTreeSet, HashMap, hash_map::Entry},
    fs::{self, File},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{PoisonError, RwLock, RwLockReadGuard},
    thread,
    time::{Duration, Instant},
};

use chrono::Utc;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sled::Batch;
use tracing::{error, info};

use events::{CommitId, PaymentId, QuoteRequestId, StreamId};
use journal::Recorded;

use crate::{
    alarm::JournalAlarm,
    entry::{
        CHECKPOINT, ENTRY_PREFIXES, OPEN_PREFIX, PAYMENT_PREFIX, QUOTE_REQUEST_PREFIX, UNREADABLE_PREFIX, View, decode,
        encode, key, stream_of, view_key,
    },
    generations::{building_path, discard_unfinished, generation_path, generations},
    quote_request::QuoteRequestView,
    unreadable::{NO_COMMIT, Unreadable, UnreadableRecord},
    view::{Applied, PaymentView},
};

/// sled's page cache. Its own default of 1 GiB would be the gateway's largest part.
const CACHE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How long an earlier holder in this process may take to let go of its files.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(5);
const SHARDS: &[u8] = b"shards";
const DAMAGED: &str = "damaged";

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

/// Why stored views cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// sled failed; nothing in the database can be relied on.
    #[error("sled: {0}")]
    Storage(String),
    /// A value has another format version or no meaning, or the tree's own accounts do not add up.
    #[error("{0}")]
    Damaged(String),
    /// The stream holds a commit that does not follow on what was applied.
    #[error("commit {version} of {stream_id} at sequence {sequence} does not follow on what was applied")]
    Gap {
        /// The payment or batch.
        stream_id: StreamId,
        /// Version of the commit.
        version: u64,
        /// Its stream sequence.
        sequence: u64,
    },
}

impl From<sled::Error> for Fault {
    fn from(error: sled::Error) -> Self {
        Self::Storage(error.to_string())
    }
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
    /// Opens the newest generation under `root`, or begins a new one when there is none or it is of no use. `lost` is told
    /// of shards that commits were read from and that the journal has no more.
    pub(crate) fn open(root: &Path, shards: u16, lost: impl FnMut(JournalAlarm)) -> io::Result<Self> {
        discard_unfinished(root)?;
        let generations = generations(root)?;
        let newest = generations.last().copied();
        for old in generations.iter().rev().skip(1) {
            fs::remove_dir_all(generation_path(root, *old))?;
        }
        let Some(generation) = newest else {
            info!(directory = %root.display(), "no projections yet, building them from the streams");
            return Self::begin(root, 1, shards);
        };
        let path = generation_path(root, generation);
        match Self::reopen(&path, generation, shards, lost) {
            Ok(store) => Ok(store),
            Err(Opening::Environment(error)) => Err(error),
            Err(Opening::Unusable(reason)) => {
                let aside = root.join(DAMAGED);
                error!(directory = %path.display(), aside = %aside.display(), reason,
                    "PROJECTIONS ARE DAMAGED: moved aside, building all of them again from the streams");
                if aside.exists() {
                    fs::remove_dir_all(&aside)?;
                }
                fs::rename(&path, &aside)?;
                Self::begin(root, generation + 1, shards)
            }
        }
    }

    /// Begins `generation`, a later one than this, empty.
    pub(crate) fn successor(&self, root: &Path, generation: u64) -> io::Result<Self> {
        Self::begin(root, generation, self.trees().len() as u16)
    }

    /// Begins `generation` as a shadow copy of this one, to be filled from the streams. Until [`Store::finish`] it is removed by
    /// the next start.
    pub(crate) fn shadow_copy(&self, root: &Path, generation: u64) -> io::Result<Self> {
        let marker = File::create(building_path(root, generation))?;
        marker.sync_all()?;
        File::open(root)?.sync_all()?;
        Ok(Self { rebuilt_from: Some(self.generation), ..self.successor(root, generation)? })
    }

    /// Puts everything on disk and makes this the generation that the next start opens.
    pub(crate) fn finish(&self, root: &Path) -> Result<(), Fault> {
        self.flush()?;
        let removed = fs::remove_file(building_path(root, self.generation)).and_then(|()| File::open(root)?.sync_all());
        removed.map_err(|error| Fault::Storage(error.to_string()))
    }

    /// Removes the files of a generation that has a successor, or is not to be one. Readers that still hold it keep what
    /// they read.
    pub(crate) fn discard(root: &Path, generation: u64) -> io::Result<()> {
        fs::remove_dir_all(generation_path(root, generation))?;
        match fs::remove_file(building_path(root, generation)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Number of the generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Number of the generation that this one was built beside, to take its place.
    pub(crate) fn rebuilt_from(&self) -> Option<u64> {
        self.rebuilt_from
    }

    fn begin(root: &Path, generation: u64, shards: u16) -> io::Result<Self> {
        let path = generation_path(root, generation);
        // What an interrupted attempt left behind was never used.
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        let made = guarded(|| {
            let store = Self::over(sled_config(&path).open()?, generation);
            store.open_trees(shards)?;
            // From here on a database without the number of its shards is one that lost it.
            store.db.flush()?;
            Ok(store)
        });
        made.map_err(|fault| io::Error::other(fault.to_string()))
    }

    fn reopen(path: &Path, generation: u64, shards: u16, mut lost: impl FnMut(JournalAlarm)) -> Result<Self, Opening> {
        let unusable = |fault: Fault| Opening::Unusable(fault.to_string());
        let store = Self::over(open_released(path)?, generation);
        let stored = guarded(|| Ok(store.db.get(SHARDS)?)).map_err(unusable)?;
        let stored = stored.and_then(|stored| stored.as_ref().try_into().ok()).map(u16::from_be_bytes);
        let Some(stored) = stored else {
            return Err(Opening::Unusable("it lost its contents".to_owned()));
        };
        guarded(|| store.open_trees(shards.max(stored))).map_err(unusable)?;
        for shard in shards..stored {
            let Checkpoint { sequence, commit_id, .. } = store.checkpoint(shard).map_err(unusable)?;
            if sequence > 0 {
                lost(JournalAlarm { shard, checkpoint: sequence, commit_id, head: 0, found_at: Utc::now() });
            }
        }
        if stored > shards {
            return Err(Opening::Unusable(format!("it was made from {stored} shards, and there are {shards}")));
        }
        Ok(store)
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

    /// The streams of the shard whose entries here and in `other` are not the same bytes, and how many entries there are
    /// here. Streams that move meanwhile may be among them.
    pub(crate) fn differences(&self, other: &Self, shard: u16) -> Result<(BTreeSet<StreamId>, u64), Fault> {
        guarded(|| {
            let (ours, theirs) = (self.tree(shard)?, other.tree(shard)?);
            let (mut differ, mut entries) = (BTreeSet::new(), 0);
            for prefix in ENTRY_PREFIXES {
                for entry in ours.scan_prefix([prefix]) {
                    let (key, value) = entry?;
                    entries += u64::from(prefix != OPEN_PREFIX);
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
            for key in [view_key(stream_id), key(OPEN_PREFIX, id), key(UNREADABLE_PREFIX, id)] {
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
            let (mut commits, mut open) = (0, 0);
            for entry in tree.scan_prefix([PAYMENT_PREFIX]).chain(tree.scan_prefix([QUOTE_REQUEST_PREFIX])) {
                let (key, value) = entry?;
                let view = View::decode(&key, &value)?;
                let stream_id = view.stream_id();
                if stream_of(&key)? != stream_id {
                    return Err(Fault::Damaged(format!("the view of {stream_id} stands under another key")));
                }
                commits += view.version();
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
        self.tree(shard).unwrap().insert(key, encode(view).unwrap()).unwrap();
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

/// Why an existing generation was not opened.
enum Opening {
    /// The file system refuses; the data may be well.
    Environment(io::Error),
    /// The data is of no use.
    Unusable(String),
}

fn sled_config(path: &Path) -> sled::Config {
    sled::Config::new().path(path).cache_capacity(CACHE_BYTES_MAX)
}

/// Opens an existing database. The caller holds the lock on the root, so a process that still holds this database's files is
/// an earlier owner that is winding down.
fn open_released(path: &Path) -> Result<sled::Db, Opening> {
    let deadline = Instant::now() + RELEASE_WAIT_MAX;
    loop {
        let opened = catch_unwind(|| sled_config(path).open());
        match opened {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(sled::Error::Io(error))) if is_environment(error.kind()) => return Err(Opening::Environment(error)),
            // What sled says of a lock that is held has no kind of its own.
            Ok(Err(sled::Error::Io(error))) if error.kind() == io::ErrorKind::Other && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            Ok(Err(error)) => return Err(Opening::Unusable(error.to_string())),
            Err(panic) => return Err(Opening::Unusable(panic_text(panic.as_ref()))),
        }
    }
}

fn is_environment(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{OutOfMemory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(kind, OutOfMemory | PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
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
