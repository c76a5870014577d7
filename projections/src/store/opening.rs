//! Opening a database: the newest generation, an empty one in its place, a shadow copy.

use std::{
    fs::{self, File},
    io,
    panic::catch_unwind,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use chrono::Utc;
use tracing::{error, info};

use crate::{
    alarm::JournalAlarm,
    fault::Fault,
    generations::{building_path, find_unfinished, generation_path, generations, mark_building},
};

use super::{Checkpoint, SEARCHED, SHARDS, Store, guarded, panic_text};

/// sled's page cache. Its own default of 1 GiB would be the gateway's largest part.
const CACHE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// How long an earlier holder in this process may take to let go of its files.
const RELEASE_WAIT_MAX: Duration = Duration::from_secs(5);
const DAMAGED: &str = "damaged";

impl Store {
    /// Opens the newest generation under `root`, or begins a new one when there is none or it is of no use. `lost` is told
    /// of shards that commits were read from and that the journal has no more. Beside it, the number of the generation that a
    /// rebuild of it did not finish. `searched` says whether the index for search
    /// is kept; where that was otherwise, the check of each shard finds it, and the shard is built again.
    pub(crate) fn open(
        root: &Path,
        shards: u16,
        searched: bool,
        lost: impl FnMut(JournalAlarm),
    ) -> io::Result<(Self, Option<u64>)> {
        let unfinished = find_unfinished(root)?;
        let mut generations = generations(root)?;
        generations.retain(|generation| Some(*generation) != unfinished);
        let newest = generations.last().copied();
        for old in generations.iter().rev().skip(1) {
            fs::remove_dir_all(generation_path(root, *old))?;
        }
        let Some(generation) = newest else {
            info!(directory = %root.display(), "no projections yet, building them from the streams");
            return Ok((Self::begin(root, 1, shards, searched)?, None));
        };
        let path = generation_path(root, generation);
        match Self::reopen(&path, generation, shards, lost) {
            Ok(store) if store.searched == searched => Ok((store, unfinished)),
            Ok(store) => {
                info!(
                    searched,
                    "the index for search is turned on or off, building all projections again from the streams"
                );
                if let Some(unfinished) = unfinished {
                    Self::discard(root, unfinished)?;
                }
                Ok((store.keep_search(searched).map_err(|fault| io::Error::other(fault.to_string()))?, None))
            }
            Err(Opening::Environment(error)) => Err(error),
            Err(Opening::Unusable(reason)) => {
                let aside = root.join(DAMAGED);
                error!(directory = %path.display(), aside = %aside.display(), reason,
                    "PROJECTIONS ARE DAMAGED: moved aside, building all of them again from the streams");
                if aside.exists() {
                    fs::remove_dir_all(&aside)?;
                }
                fs::rename(&path, &aside)?;
                if let Some(unfinished) = unfinished {
                    Self::discard(root, unfinished)?;
                }
                Ok((Self::begin(root, generation + 1, shards, searched)?, None))
            }
        }
    }

    /// Begins `generation`, a later one than this, empty.
    pub(crate) fn successor(&self, root: &Path, generation: u64) -> io::Result<Self> {
        Self::begin(root, generation, self.trees().len() as u16, self.searched)
    }

    /// Begins `generation` as a shadow copy of this one, to be filled from the streams. Until [`Store::finish`] it is not what
    /// the next start opens.
    pub(crate) fn shadow_copy(&self, root: &Path, generation: u64) -> io::Result<Self> {
        mark_building(root, generation, self.generation)?;
        Ok(Self { rebuilt_from: Some(self.generation), ..self.successor(root, generation)? })
    }

    /// Opens `generation`, a shadow copy of this one that was begun and not finished.
    pub(crate) fn resume_shadow_copy(&self, root: &Path, generation: u64) -> io::Result<Self> {
        let shards = self.trees().len() as u16;
        match Self::reopen(&generation_path(root, generation), generation, shards, |_| {}) {
            Ok(store) if store.searched != self.searched => Err(io::Error::other("it has other indexes")),
            Ok(store) => Ok(Self { rebuilt_from: Some(self.generation), ..store }),
            Err(Opening::Environment(error)) => Err(error),
            Err(Opening::Unusable(reason)) => Err(io::Error::other(reason)),
        }
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

    fn begin(root: &Path, generation: u64, shards: u16, searched: bool) -> io::Result<Self> {
        let path = generation_path(root, generation);
        // What an interrupted attempt left behind was never used.
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        let made = guarded(|| {
            let store = Self::over(sled_config(&path).open()?, generation).keep_search(searched)?;
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
        let searched = guarded(|| Ok(store.db.contains_key(SEARCHED)?)).map_err(unusable)?;
        Ok(Self { searched, ..store })
    }

    /// The same, to keep the index for search or not to keep it.
    fn keep_search(self, searched: bool) -> Result<Self, Fault> {
        guarded(|| {
            match searched {
                true => self.db.insert(SEARCHED, &[])?,
                false => self.db.remove(SEARCHED)?,
            };
            Ok(())
        })?;
        Ok(Self { searched, ..self })
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
