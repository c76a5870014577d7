//! The manifest of a copy: what is in it, and up to where.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use audit::layout::{self, Layout};
use events::time::Timestamp;
use journal::{checkpoint, envelope};

use super::{
    Error,
    plan::{self, is_kept, is_shard},
};

/// The file's name in the directory.
const FILE: &str = "backup.json";
/// The form that this program writes and reads.
const FORMAT: u32 = 1;

/// The manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Its form.
    format: u32,
    /// The version of the program that wrote it.
    version: String,
    /// When the copy was begun: what was stored before is in it.
    pub made_at: Timestamp,
    /// Which copy it is of those that were made into the directory, from 1 on. It stands in the names of the files that are
    /// written anew each time, so that those of the copy before stay until this one is whole.
    pub generation: u64,
    /// The epochs of the journal, where there are several.
    pub layout: Option<layout::Exported>,
    /// The last sequence of each stream that keeps everything.
    pub kept: BTreeMap<String, u64>,
    /// How many messages there are of each other stream.
    pub newest: BTreeMap<String, u64>,
}

impl Manifest {
    /// A manifest of nothing yet.
    pub fn begun(made_at: Timestamp, generation: u64) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (kept, newest) = Default::default();
        Self { format: FORMAT, version, made_at, generation, layout: None, kept, newest }
    }

    /// That of the copy in `directory`.
    ///
    /// # Errors
    /// [`Error::Defective`] when it is missing, or of another form.
    pub fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let defective = |what: String| Error::Defective { path: path.clone(), what };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Error::Defective { path: directory.to_owned(), what: format!("it has no {FILE}") });
            }
            Err(error) => return Err(Error::File { path, error }),
        };
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| defective(error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(defective(format!("it has form {}, and this program reads {FORMAT}", manifest.format)));
        }
        manifest.names().map_err(defective)?;
        Ok(manifest)
    }

    /// That it names all shards of its epochs, and no stream that a copy does not have. Only such names are ever made into paths.
    fn names(&self) -> Result<(), String> {
        let shards = self.epochs()?.shards();
        let missing = (0..shards).map(envelope::stream).find(|name| !self.kept.contains_key(name));
        if let Some(name) = missing {
            return Err(format!("{name} is missing, one of {shards} shards"));
        }
        let is_own =
            |name: &str| plan::shard(name).is_some_and(|shard| shard < shards && envelope::stream(shard) == name);
        let kept = self.kept.keys().find(|name| !is_kept(name) || is_shard(name) && !is_own(name));
        let other = kept.or_else(|| self.newest.keys().find(|name| !plan::NEWEST.contains(&name.as_str())));
        other.map_or(Ok(()), |name| Err(format!("{name:?} is no stream that a copy has")))
    }

    /// The epochs of the journal.
    ///
    /// # Errors
    /// What does not hold together.
    pub fn epochs(&self) -> Result<Layout, String> {
        match &self.layout {
            Some(layout) => Layout::new(&layout.epochs, layout.sealed.clone()).map_err(|error| error.to_string()),
            None => match u16::try_from(self.shards().count()) {
                Ok(shards) if shards > 0 => Ok(Layout::one(shards)),
                _ => Err("it names no shard".to_owned()),
            },
        }
    }

    /// Writes it, whole or not at all, once everything that it names is on disk.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        let (path, new) = (directory.join(FILE), directory.join(format!("{FILE}.new")));
        let written = || {
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(directory)?.sync_all()
        };
        written().map_err(Error::file(&path))
    }

    /// The names of its streams.
    pub fn streams(&self) -> impl Iterator<Item = &str> {
        self.kept.keys().chain(self.newest.keys()).map(String::as_str)
    }

    /// The last sequence of each shard.
    pub fn heads(&self) -> BTreeMap<u16, u64> {
        self.kept.iter().filter_map(|(name, last)| Some((plan::shard(name)?, *last))).collect()
    }

    /// The shards of the journal.
    pub fn shards(&self) -> impl Iterator<Item = &str> {
        self.kept.keys().map(String::as_str).filter(|name| is_shard(name))
    }

    /// The streams of the auditor's export, with their last sequences.
    pub fn exported(&self) -> BTreeMap<String, u64> {
        let is_exported = |name: &str| is_shard(name) || name == checkpoint::STREAM;
        self.kept.iter().filter(|(name, _)| is_exported(name)).map(|(name, last)| (name.clone(), *last)).collect()
    }

    /// The file of a stream.
    pub(crate) fn file(&self, directory: &Path, stream: &str) -> PathBuf {
        if is_shard(stream) || stream == checkpoint::STREAM {
            return journal(directory).join(format!("{stream}.jsonl"));
        }
        match is_kept(stream) {
            true => gateway(directory).join(format!("{stream}.jsonl")),
            false => gateway(directory).join(format!("{stream}.{}.jsonl", self.generation)),
        }
    }
}

/// The folder of what an auditor's export holds.
pub fn journal(directory: &Path) -> PathBuf {
    directory.join("journal")
}

/// The folder of what is the gateways' own business.
pub(crate) fn gateway(directory: &Path) -> PathBuf {
    directory.join("gateway")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn manifest() -> Manifest {
        let mut manifest = Manifest::begun("2026-01-02T03:04:05Z".parse().unwrap(), 3);
        manifest.kept = [("EVT_00".to_owned(), 7), ("EVT_01".to_owned(), 0), ("X402".to_owned(), 2)].into();
        manifest.newest.insert("AWARDS".to_owned(), 2);
        manifest
    }

    #[test]
    fn a_manifest_reads_back_and_says_where_each_file_is() {
        let directory = TempDir::new().unwrap();
        let manifest = manifest();
        manifest.write(directory.path()).unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), manifest);
        assert_eq!(manifest.heads(), [(0, 7), (1, 0)].into());
        let file = |stream| manifest.file(Path::new("d"), stream);
        assert_eq!(file("EVT_01"), Path::new("d/journal/EVT_01.jsonl"));
        assert_eq!(file("X402"), Path::new("d/gateway/X402.jsonl"));
        assert_eq!(file("AWARDS"), Path::new("d/gateway/AWARDS.3.jsonl"));
        let other = TempDir::new().unwrap();
        assert!(Manifest::read(other.path()).unwrap_err().to_string().contains("no whole copy: it has no backup.json"));
    }

    #[test]
    fn a_manifest_of_other_streams_than_a_copy_has_is_refused() {
        let directory = TempDir::new().unwrap();
        let refused = |manifest: Manifest| {
            manifest.write(directory.path()).unwrap();
            matches!(Manifest::read(directory.path()), Err(Error::Defective { .. }))
        };
        assert!(!refused(manifest()));
        for name in ["../EVT_00", "EVT_0", "EVT_03", "EVT_000", "KV_gw_control", ""] {
            let mut manifest = manifest();
            manifest.kept.insert(name.to_owned(), 7);
            assert!(refused(manifest), "{name}");
        }
        let mut other = manifest();
        other.newest.insert("EVT_00".to_owned(), 7);
        assert!(refused(other));
        let mut none = manifest();
        none.kept.clear();
        assert!(refused(none));
        let mut lacking = manifest();
        let runs = [(0, 0, 2), (1, 2, 1)].map(|(number, first, shards)| layout::Run { number, first, shards });
        lacking.layout = Some(layout::Exported { epochs: runs.into(), sealed: [0].into() });
        assert!(refused(lacking.clone()));
        lacking.kept.insert("EVT_02".to_owned(), 1);
        assert!(!refused(lacking));
    }
}
