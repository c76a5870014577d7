//! The sled database: one tree a shard, data and checkpoint in the same batch.
//!
//! A tree holds four kinds of keys, told apart by their first byte: the checkpoint, a view for each payment, a view for
//! each quote-request batch, and an empty entry for each of either that is not at rest. Values are a format version byte
//! and then postcard.
//!
//! A stream's commits are numbered without gaps, so the versions of all views of a shard add up to the commits that
//! were ever applied to it. The checkpoint carries that number, and [`Store::verify`] compares: a page that sled lost
//! or took from an older state shows as a difference.

use std::{
    any::Any,
    collections::{HashMap, hash_map::Entry},
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use events::{PaymentId, QuoteRequestId, StreamId, journal::Recorded};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sled::Batch;
use tracing::{error, info};

use crate::{
    quote_request::QuoteRequestView,
    view::{Applied, PaymentView},
};

/// Version of the stored form. Whatever bears another is built again.
const FORMAT: u8 = 2;
/// sled's page cache. Its own default of 1 GiB would be the gateway's largest part.
const CACHE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How long an earlier holder in this process may take to let go of its files.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(5);
const CHECKPOINT: &[u8] = b"c";
const OPEN_PREFIX: u8 = b'o';
const PAYMENT_PREFIX: u8 = b'p';
const QUOTE_REQUEST_PREFIX: u8 = b'q';
const SHARDS: &[u8] = b"shards";
const GENERATION_PREFIX: &str = "generation-";
const DAMAGED: &str = "damaged";

/// How far a shard was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// Stream sequence of the last commit applied; 0 for none.
    pub(crate) sequence: u64,
    /// Its commit id, by which a stream that was replaced is told from the one that was applied.
    pub(crate) commit_id: String,
    /// Commits applied since the first.
    pub(crate) commits: u64,
}

/// What came of applying a page.
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
    trees: Vec<sled::Tree>,
    generation: u64,
}

impl Store {
    /// Opens the newest generation under `root`, or begins a new one when there is none or it is of no use.
    pub(crate) fn open(root: &Path, shards: u16) -> io::Result<Self> {
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
        match Self::reopen(&path, generation, shards) {
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

    /// Begins the generation after this one, empty.
    pub(crate) fn successor(&self, root: &Path) -> io::Result<Self> {
        Self::begin(root, self.generation + 1, self.trees.len() as u16)
    }

    /// Removes the files of a generation that has a successor. Readers that still hold it keep what they read.
    pub(crate) fn discard(&self, root: &Path) -> io::Result<()> {
        fs::remove_dir_all(generation_path(root, self.generation))
    }

    fn begin(root: &Path, generation: u64, shards: u16) -> io::Result<Self> {
        let path = generation_path(root, generation);
        // What an interrupted attempt left behind was never used.
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        let made = guarded(|| {
            let db = sled_config(&path).open()?;
            let trees = open_trees(&db, shards)?;
            db.insert(SHARDS, &shards.to_be_bytes())?;
            // From here on a database without this entry is one that lost it.
            db.flush()?;
            Ok(Self { db, trees, generation })
        });
        made.map_err(|fault| io::Error::other(fault.to_string()))
    }

    fn reopen(path: &Path, generation: u64, shards: u16) -> Result<Self, Opening> {
        let unusable = |fault: Fault| Opening::Unusable(fault.to_string());
        let db = open_released(path)?;
        let stored = guarded(|| Ok(db.get(SHARDS)?)).map_err(unusable)?;
        let Some(stored) = stored else {
            return Err(Opening::Unusable("it lost its contents".to_owned()));
        };
        if stored.as_ref() != shards.to_be_bytes() {
            return Err(Opening::Unusable(format!("it was not made from {shards} shards")));
        }
        let trees = guarded(|| open_trees(&db, shards)).map_err(unusable)?;
        Ok(Self { db, trees, generation })
    }

    /// The view of a payment.
    pub(crate) fn payment(&self, shard: u16, id: &PaymentId) -> Result<Option<PaymentView>, Fault> {
        guarded(|| read(&self.trees[usize::from(shard)], PAYMENT_PREFIX, id.as_str()))
    }

    /// The view of a batch.
    pub(crate) fn quote_request(&self, shard: u16, id: &QuoteRequestId) -> Result<Option<QuoteRequestView>, Fault> {
        guarded(|| read(&self.trees[usize::from(shard)], QUOTE_REQUEST_PREFIX, id.as_str()))
    }

    /// Every payment and batch of the shard that is not at rest.
    pub(crate) fn open_streams(&self, shard: u16) -> Result<Vec<StreamId>, Fault> {
        guarded(|| {
            let keys = self.trees[usize::from(shard)].scan_prefix([OPEN_PREFIX]).keys();
            keys.map(|key| stream_of(&key?)).collect()
        })
    }

    /// Reads the whole shard and checks that it is what applying `commits` commits must have left.
    pub(crate) fn verify(&self, shard: u16) -> Result<Checkpoint, Fault> {
        guarded(|| {
            let tree = &self.trees[usize::from(shard)];
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
            let mut indexed = 0;
            for key in tree.scan_prefix([OPEN_PREFIX]).keys() {
                let stream_id = stream_of(&key?)?;
                if View::read(tree, &stream_id)?.is_none_or(|view| view.at_rest()) {
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

    /// Applies a page of commits in one batch. Commits at or below the checkpoint are skipped.
    pub(crate) fn apply(&self, shard: u16, page: &[Recorded]) -> Result<Page, Fault> {
        guarded(|| {
            let tree = &self.trees[usize::from(shard)];
            let mut checkpoint = read_checkpoint(tree)?;
            let mut views = HashMap::<&StreamId, View>::new();
            let applied_before = checkpoint.sequence;
            for recorded in page.iter().filter(|recorded| recorded.position.sequence > applied_before) {
                checkpoint.commits += u64::from(take_in(tree, &mut views, recorded)?);
                checkpoint.sequence = recorded.position.sequence;
                checkpoint.commit_id = recorded.commit_id.as_str().to_owned();
            }
            if checkpoint.sequence == applied_before {
                return Ok(Page { checkpoint, changed: Vec::new() });
            }
            let mut batch = Batch::default();
            for (stream_id, view) in &views {
                batch.insert(view_key(stream_id), view.encode()?);
                if view.at_rest() {
                    batch.remove(key(OPEN_PREFIX, stream_id.as_str()));
                } else {
                    batch.insert(key(OPEN_PREFIX, stream_id.as_str()), &[]);
                }
            }
            batch.insert(CHECKPOINT, encode(&checkpoint)?);
            tree.apply_batch(batch)?;
            Ok(Page { checkpoint, changed: views.into_keys().cloned().collect() })
        })
    }

    /// Empties a shard. Interrupted half way it fails [`Store::verify`], because the checkpoint goes first.
    pub(crate) fn reset(&self, shard: u16) -> Result<(), Fault> {
        guarded(|| {
            let tree = &self.trees[usize::from(shard)];
            tree.remove(CHECKPOINT)?;
            Ok(tree.clear()?)
        })
    }

    /// Puts on disk what was applied so far.
    pub(crate) fn flush(&self) -> Result<(), Fault> {
        guarded(|| self.db.flush().map(drop).map_err(Fault::from))
    }

    /// Makes a view unreadable.
    #[cfg(test)]
    pub(crate) fn damage(&self, shard: u16, payment_id: &PaymentId) {
        self.trees[usize::from(shard)].insert(key(PAYMENT_PREFIX, payment_id.as_str()), &[FORMAT + 1]).unwrap();
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

/// Opens an existing database. The caller holds the lock on the root, so whoever still holds this database's files is
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

fn open_trees(db: &sled::Db, shards: u16) -> Result<Vec<sled::Tree>, Fault> {
    (0..shards).map(|shard| Ok(db.open_tree(format!("payments_{shard:02}"))?)).collect()
}

fn generation_path(root: &Path, generation: u64) -> PathBuf {
    root.join(format!("{GENERATION_PREFIX}{generation}"))
}

/// Numbers of the generations under `root`, ascending.
fn generations(root: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(GENERATION_PREFIX)?.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// sled panics on some damage where it could return an error; either way the database is of no use.
fn guarded<T>(work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Fault::Storage(panic_text(panic.as_ref()))))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("no message"))
}

/// The view of either kind.
enum View {
    Payment(Box<PaymentView>),
    QuoteRequest(Box<QuoteRequestView>),
}

impl View {
    fn begin(first: &Recorded) -> Option<Self> {
        match &first.stream_id {
            StreamId::Payment(_) => PaymentView::begin(first).map(|view| Self::Payment(Box::new(view))),
            StreamId::QuoteRequest(_) => QuoteRequestView::begin(first).map(|view| Self::QuoteRequest(Box::new(view))),
        }
    }

    fn apply(&mut self, recorded: &Recorded) -> Applied {
        match self {
            Self::Payment(view) => view.apply(recorded),
            Self::QuoteRequest(view) => view.apply(recorded),
        }
    }

    fn stream_id(&self) -> StreamId {
        match self {
            Self::Payment(view) => (&view.payment_id).into(),
            Self::QuoteRequest(view) => (&view.quote_request_id).into(),
        }
    }

    fn version(&self) -> u64 {
        match self {
            Self::Payment(view) => view.version,
            Self::QuoteRequest(view) => view.version,
        }
    }

    fn at_rest(&self) -> bool {
        match self {
            Self::Payment(view) => view.at_rest,
            Self::QuoteRequest(view) => view.at_rest,
        }
    }

    fn encode(&self) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Payment(view) => encode(view),
            Self::QuoteRequest(view) => encode(view),
        }
    }

    /// The view under `key`, whose prefix is that of its kind.
    fn decode(key: &[u8], value: &[u8]) -> Result<Self, Fault> {
        match key.first() {
            Some(&QUOTE_REQUEST_PREFIX) => decode(value).map(Self::QuoteRequest),
            _ => decode(value).map(Self::Payment),
        }
    }

    fn read(tree: &sled::Tree, stream_id: &StreamId) -> Result<Option<Self>, Fault> {
        let key = view_key(stream_id);
        tree.get(&key)?.map(|value| Self::decode(&key, &value)).transpose()
    }
}

fn key(prefix: u8, id: &str) -> Vec<u8> {
    let mut key = vec![prefix];
    key.extend_from_slice(id.as_bytes());
    key
}

fn view_key(stream_id: &StreamId) -> Vec<u8> {
    let prefix = match stream_id {
        StreamId::Payment(_) => PAYMENT_PREFIX,
        StreamId::QuoteRequest(_) => QUOTE_REQUEST_PREFIX,
    };
    key(prefix, stream_id.as_str())
}

fn stream_of(key: &[u8]) -> Result<StreamId, Fault> {
    let text = key.get(1..).and_then(|id| std::str::from_utf8(id).ok()).and_then(|id| id.parse().ok());
    text.ok_or_else(|| Fault::Damaged("a key holds no id of a stream".to_owned()))
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, Fault> {
    postcard::to_extend(value, vec![FORMAT])
        .map_err(|error| Fault::Damaged(format!("value cannot be written: {error}")))
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    match bytes.split_first() {
        Some((&FORMAT, body)) => {
            let (value, rest) = postcard::take_from_bytes(body)
                .map_err(|error| Fault::Damaged(format!("value cannot be read: {error}")))?;
            if rest.is_empty() { Ok(value) } else { Err(Fault::Damaged("value is followed by more".to_owned())) }
        }
        Some((format, _)) => Err(Fault::Damaged(format!("value has format {format}, this build reads {FORMAT}"))),
        None => Err(Fault::Damaged("value is empty".to_owned())),
    }
}

fn read_checkpoint(tree: &sled::Tree) -> Result<Checkpoint, Fault> {
    tree.get(CHECKPOINT)?.map_or_else(|| Ok(Checkpoint::default()), |value| decode(&value))
}

fn read<T: DeserializeOwned>(tree: &sled::Tree, prefix: u8, id: &str) -> Result<Option<T>, Fault> {
    tree.get(key(prefix, id))?.map(|value| decode(&value)).transpose()
}

/// Takes one commit into the views of a page; `false` when its stream's view holds it already.
fn take_in<'a>(
    tree: &sled::Tree,
    views: &mut HashMap<&'a StreamId, View>,
    recorded: &'a Recorded,
) -> Result<bool, Fault> {
    let gap = || Fault::Gap {
        stream_id: recorded.stream_id.clone(),
        version: recorded.position.version,
        sequence: recorded.position.sequence,
    };
    let view = match views.entry(&recorded.stream_id) {
        Entry::Occupied(entry) => entry.into_mut(),
        Entry::Vacant(entry) => match View::read(tree, &recorded.stream_id)? {
            Some(view) => entry.insert(view),
            None => {
                entry.insert(View::begin(recorded).ok_or_else(gap)?);
                return Ok(true);
            }
        },
    };
    match view.apply(recorded) {
        Applied::Next => Ok(true),
        Applied::Skipped => Ok(false),
        Applied::Gap => Err(gap()),
    }
}
