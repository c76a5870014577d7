//! The audit state, which an auditor keeps from run to run: the highest checkpoint of each shard.
//!
//! Whoever can cut off the journal can cut off the checkpoints with it, and sign none of what is gone. Only somebody who
//! saw them before can tell; that is what this file is for.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use events::Hash32;

/// A checkpoint that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Its sequence in stream `CHK`.
    pub stored: u64,
    /// The sequence of the shard that it signed.
    pub sequence: u64,
    /// Its hash.
    pub hash: Hash32,
}

/// The highest checkpoint seen of each shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditState {
    /// By shard.
    pub shards: BTreeMap<u16, Seen>,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct Error {
    path: PathBuf,
    reason: String,
}

impl AuditState {
    /// What `path` remembers; nothing when it does not exist yet.
    ///
    /// # Errors
    /// [`Error`] when it cannot be read. It is not taken for a new one then: that would forget what it is for.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let fault = |reason: String| Error { path: path.to_owned(), reason };
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| fault(error.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(fault(error.to_string())),
        }
    }

    /// Replaces what `path` holds, whole or not at all.
    ///
    /// # Errors
    /// [`Error`] when it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let fault = |reason: String| Error { path: path.to_owned(), reason };
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| fault(error.to_string()))?;
        text.push(b'\n');
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        let written = std::fs::File::create(&new).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.and_then(|()| std::fs::rename(&new, path)).map_err(|error| fault(error.to_string()))
    }

    /// Takes note of a checkpoint, unless a higher one of its shard was seen.
    pub fn note(&mut self, shard: u16, seen: Seen) {
        let known = self.shards.get(&shard).map_or(0, |known| known.stored);
        if seen.stored > known {
            self.shards.insert(shard, seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_is_remembered_and_a_damaged_file_is_not_a_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.json");
        let seen = |stored| Seen { stored, sequence: stored * 2, hash: Hash32([1; 32]) };
        let mut state = AuditState::load(&path).unwrap();
        assert_eq!(state, AuditState::default());
        state.note(3, seen(7));
        state.note(3, seen(6));
        state.save(&path).unwrap();
        assert_eq!(AuditState::load(&path).unwrap().shards[&3], seen(7));
        std::fs::write(&path, "{\"shards\":").unwrap();
        assert!(AuditState::load(&path).is_err());
    }
}
