//! What a deployment notes before it sends: a file beside that of the chains, which only its owner can read, as keys may be
//! in it.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use chains::deployment::{DeployError, Notes};
use events::ChainId;

/// The notes of one chain.
pub(super) struct FileNotes {
    path: PathBuf,
    notes: Mutex<BTreeMap<String, Value>>,
    /// Held for as long as this is: two that deploy at once would pay twice.
    _lock: File,
}

impl FileNotes {
    /// The notes about a chain, `deploy-….json` beside the file of chains.
    ///
    /// # Errors
    /// [`DeployError::Notes`], also while another process has them.
    pub(super) fn beside(chains: &Path, chain: &ChainId) -> Result<Self, DeployError> {
        let directory = chains.parent().unwrap_or(Path::new(""));
        let name = chain.as_str().replace(':', "-");
        let path = directory.join(format!("deploy-{name}.json"));
        let failed = |error: std::io::Error| DeployError::Notes(format!("{}: {error}", path.display()));
        let lock = path.with_extension("lock");
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock).map_err(failed)?;
        if lock.try_lock().is_err() {
            return Err(DeployError::Notes(format!("another process deploys on {chain}")));
        }
        let notes = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|error| DeployError::Notes(format!("{}: {error}", path.display())))?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(failed(error)),
        };
        Ok(Self { path, notes: Mutex::new(notes), _lock: lock })
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        // Every change is whole before the lock is let go.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a file in the place of the other in one step, and both the file and its name on disk.
    fn save(&self, notes: &BTreeMap<String, Value>) -> std::io::Result<()> {
        let new = self.path.with_extension("json.new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(serde_json::to_string_pretty(notes)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Notes for FileNotes {
    fn get(&self, name: &str) -> Option<Value> {
        self.notes().get(name).cloned()
    }

    fn put(&self, name: &str, value: Value) -> Result<(), DeployError> {
        let mut notes = self.notes();
        let mut changed = notes.clone();
        match value {
            Value::Null => drop(changed.remove(name)),
            value => drop(changed.insert(name.to_owned(), value)),
        }
        self.save(&changed).map_err(|error| DeployError::Notes(format!("{}: {error}", self.path.display())))?;
        *notes = changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn notes_are_there_after_the_process_and_for_nobody_else() {
        let directory = tempfile::tempdir().unwrap();
        let chains = directory.path().join("chains.toml");
        let chain: ChainId = "eip155:31337".parse().unwrap();
        let notes = FileNotes::beside(&chains, &chain).unwrap();
        assert_eq!(notes.get("a"), None);
        notes.put("a", Value::from(1)).unwrap();
        notes.put("b", Value::from("text")).unwrap();
        notes.put("b", Value::Null).unwrap();
        let error = FileNotes::beside(&chains, &chain).err().unwrap().to_string();
        assert!(error.contains("another process deploys on eip155:31337"), "{error}");
        drop(notes);
        let notes = FileNotes::beside(&chains, &chain).unwrap();
        assert_eq!((notes.get("a"), notes.get("b")), (Some(Value::from(1)), None));
        let file = fs::metadata(directory.path().join("deploy-eip155-31337.json")).unwrap();
        assert_eq!(file.mode() & 0o777, 0o600);
    }
}
