//! The documents as files.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{MESSAGES, document};

/// Why a folder does not hold the documents.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not what the code gives.
    #[error("{} is not what the code gives; `gw protocol --write` makes it so", .0.display())]
    Differs(PathBuf),
    /// A schema of no message.
    #[error("{} describes no message", .0.display())]
    Surplus(PathBuf),
}

/// Every document by its path in the folder.
fn files() -> BTreeMap<String, String> {
    let schemas = MESSAGES.iter().map(|message| (format!("schemas/{}.json", message.file), text(&message.schema())));
    schemas.chain([("asyncapi.json".to_owned(), text(&document()))]).collect()
}

/// Writes the documents into `folder`.
///
/// # Errors
/// [`Error::Io`].
pub fn write(folder: &Path) -> Result<(), Error> {
    for (name, text) in files() {
        let path = folder.join(name);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        written.map_err(|source| Error::Io { path, source })?;
    }
    Ok(())
}

/// Checks that `folder` holds the documents and no schema besides.
///
/// # Errors
/// See [`Error`]; the first difference.
pub fn check(folder: &Path) -> Result<(), Error> {
    let files = files();
    for (name, text) in &files {
        let path = folder.join(name);
        match fs::read_to_string(&path) {
            Ok(found) if found == *text => {}
            Ok(_) => return Err(Error::Differs(path)),
            Err(source) => return Err(Error::Io { path, source }),
        }
    }
    let schemas = folder.join("schemas");
    let entries = fs::read_dir(&schemas).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    for entry in entries.map_err(|source| Error::Io { path: schemas, source })? {
        if !files.contains_key(&format!("schemas/{}", entry.file_name().to_string_lossy())) {
            return Err(Error::Surplus(entry.path()));
        }
    }
    Ok(())
}

fn text(document: &Value) -> String {
    // The alternate form of a value is its indented text.
    format!("{document:#}\n")
}
