//! Why a copy is not made, not whole, or not put in place.

use std::path::PathBuf;

use events::time::Timestamp;
use journal_jetstream::{raw::Unavailable, refill, store::BeginError, store::ConnectError};

/// Why there is no copy, or it is not in place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server gives no answer.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A stream cannot be copied.
    #[error(transparent)]
    Export(#[from] audit::export::Error),
    /// The files of the journal cannot be read as one.
    #[error(transparent)]
    Journal(#[from] audit::Error),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The directory holds no whole copy.
    #[error("{} is no whole copy: {what}", path.display())]
    Defective {
        /// The directory or file.
        path: PathBuf,
        /// What is missing or wrong.
        what: String,
    },
    /// A stream on the server is not the beginning of what the copy has.
    #[error(
        "{stream} on the server {what}; a copy is put into empty servers, or goes on where its restore was interrupted"
    )]
    NotEmpty {
        /// The stream.
        stream: String,
        /// What it holds.
        what: String,
    },
    /// Gateways run.
    #[error("gateways are running: {}. Stop all of them, and keep them from being started", .0.join(", "))]
    Running(Vec<String>),
    /// Another restore was begun, or is over.
    #[error(
        "the servers hold a restore of another copy, of {copied_at}; make them empty, or go on with that copy while it is \
         under way"
    )]
    OtherCopy {
        /// When that copy was made.
        copied_at: Timestamp,
    },
    /// A stream cannot be created as it has to be.
    #[error(transparent)]
    Streams(#[from] ConnectError),
    /// An epoch cannot be begun.
    #[error(transparent)]
    Epoch(#[from] BeginError),
    /// A stream of the auction, the payment identifiers or the bucket of operators cannot be had.
    #[error("{what}: {reason}")]
    Other {
        /// What it is.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// A stream cannot be filled.
    #[error(transparent)]
    Refill(#[from] refill::Error),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |error| Self::File { path, error }
    }
}
