//! The files of a policy set, read again when they change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use config::CounterpartyConfig;

use super::rules::{Rules, RulesError};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Largest file, in bytes: a hundred thousand accounts are a third of it.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why a policy set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The policy file cannot be used.
    #[error("policies in {}: {source}", .path.display())]
    Policies {
        /// The file.
        path: PathBuf,
        /// Why.
        source: RulesError,
    },
    /// The deny list cannot be used.
    #[error("deny list {}: {source}", .path.display())]
    DenyList {
        /// The file.
        path: PathBuf,
        /// Why.
        source: RulesError,
    },
}

/// The files that are configured.
#[derive(Debug, Clone)]
pub struct Files {
    policies: Option<PathBuf>,
    deny: Option<PathBuf>,
}

/// By which a changed file is known.
type Stamp = Option<(SystemTime, u64, u64)>;

impl Files {
    pub fn new(config: &CounterpartyConfig) -> Self {
        Self { policies: config.policy_file.clone(), deny: config.deny_list.clone() }
    }

    /// Reads and compiles the files as they are now.
    pub fn compile(&self) -> Result<Rules, Error> {
        let read = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
        let (policies, deny) = (read(&self.policies)?, read(&self.deny)?);
        Rules::compile(policies.as_deref(), deny.as_deref()).map_err(|source| {
            // An error is of the file that is there to have it.
            let of = |path: &Option<PathBuf>| path.clone().unwrap_or_default();
            match source {
                RulesError::Policies(_) => Error::Policies { path: of(&self.policies), source },
                RulesError::DenyList(_) => Error::DenyList { path: of(&self.deny), source },
            }
        })
    }

    fn stamps(&self) -> [Stamp; 2] {
        [&self.policies, &self.deny].map(|path| stamp(path.as_deref()?))
    }

    /// Compiles the files again whenever they have changed, until `shutdown`, and tells what came of it.
    pub async fn follow(&self, shutdown: &CancellationToken, tell: impl Fn(Result<Rules, Error>)) {
        let (mut seen, mut taken) = (self.stamps(), None);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let now = self.stamps();
            // A file that is being written changes from one look to the next, and half of a deny list permits the rest.
            let unchanged = now == seen;
            seen = now;
            if !unchanged || taken == Some(now) {
                continue;
            }
            taken = Some(now);
            let files = self.clone();
            match tokio::task::spawn_blocking(move || files.compile()).await {
                Ok(outcome) => tell(outcome),
                Err(error) => tracing::error!(%error, "counterparty policies could not be read again"),
            }
        }
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > FILE_BYTES_MAX {
        return Err(unreadable(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes"))));
    }
    fs::read_to_string(path).map_err(unreadable)
}

fn stamp(path: &Path) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
}
