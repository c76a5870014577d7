//! The committed inputs of a target: `corpus/TARGET/`, and `crashes/TARGET/` with what once failed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::Target;

/// Where the committed inputs of a target of that kind are.
pub fn folder(kind: &str, target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target.name)
}

/// The inputs of a target in the order of their names, each with its name; none where there is no such folder.
///
/// # Errors
/// What the file system says.
pub fn read(kind: &str, target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let folder = folder(kind, target);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    paths.into_iter().map(|path| Ok((path.display().to_string(), fs::read(&path)?))).collect()
}
