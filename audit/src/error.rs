//! Audit error: the messages to audit cannot be read.

use std::path::PathBuf;

use journal_jetstream::raw::Unavailable;

/// Why there are no messages to read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server gives no answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// There is no journal, or part of it is not there.
    #[error("there is no journal: {0}")]
    NoJournal(String),
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}
