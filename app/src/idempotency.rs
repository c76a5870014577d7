//! Idempotency: the first commit of the stream whose id is derived from an idempotency key decides who holds the key (design:
//! identity and idempotency).

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use journal::{AppendError, Commit, Recorded, StreamStore};

use crate::{
    admission::write_permits::Permit,
    error::{Code, Error},
    views::payments::read_failed,
};

/// How often an append whose outcome is unknown is repeated. The same commit can be stored only once, so repeating
/// asks the same question again.
const RESOLVE_ATTEMPTS: u32 = 2;
/// Longest time until the caller is told that the outcome is not known: half of the synchronous hold (spec 8).
const APPEND_MAX: Duration = Duration::from_secs(15);

/// The stream that holds the key.
pub struct Keyed {
    /// Its commits, at least one.
    pub commits: Vec<Recorded>,
    /// Whether this call stored the first of them; else another did, before.
    pub mine: bool,
}

/// Why there is no saying who holds the key.
pub enum KeyError {
    /// Nothing was stored; the answer.
    NotStored(Error),
    /// The commit may be stored or not.
    OutcomeUnknown,
}

/// Appends the first commit of a stream, or finds the stream that is there already; then calls `ended` with what it came to,
/// and gives `permit` back.
///
/// What was begun is brought to its end when the caller is gone, too: the commit may be on its way, and a caller who
/// left must not make room for another before it has arrived.
///
/// # Errors
/// See [`KeyError`].
pub async fn append_first(
    journal: Arc<dyn StreamStore>,
    commit: Commit,
    permit: Arc<Permit>,
    ended: impl FnOnce(&Result<Keyed, KeyError>) + Send + 'static,
) -> Result<Keyed, KeyError> {
    let keyed = permit.finish(async move {
        let keyed = timeout(APPEND_MAX, resolve(journal.as_ref(), &commit)).await;
        // What is broken off may have been sent.
        let keyed = keyed.unwrap_or(Err(KeyError::OutcomeUnknown));
        ended(&keyed);
        keyed
    });
    keyed.await.unwrap_or(Err(KeyError::OutcomeUnknown))
}

async fn resolve(journal: &dyn StreamStore, commit: &Commit) -> Result<Keyed, KeyError> {
    let stream_id = &commit.stream_id;
    let mut unknown = false;
    for _ in 0..=RESOLVE_ATTEMPTS {
        match journal.append(commit).await {
            Ok(recorded) => return Ok(Keyed { commits: vec![recorded], mine: true }),
            Err(AppendError::Conflict) => {
                let commits = journal.load(stream_id).await;
                let commits = commits.map_err(|error| {
                    if unknown { KeyError::OutcomeUnknown } else { KeyError::NotStored(read_failed(&error)) }
                })?;
                return Keyed::found(commits, commit).ok_or(KeyError::OutcomeUnknown);
            }
            // Nothing is stored by this call, but an earlier one may have been.
            Err(AppendError::Unavailable(reason)) if unknown => {
                tracing::warn!(%stream_id, reason, "append could not be resolved");
            }
            Err(AppendError::Unavailable(reason)) => {
                tracing::warn!(%stream_id, reason, "request was not accepted");
                return Err(KeyError::NotStored(Code::SERVICE_UNAVAILABLE.into()));
            }
            Err(AppendError::Unknown(reason)) => {
                tracing::warn!(%stream_id, reason, "outcome of the append is unknown");
                unknown = true;
            }
            Err(AppendError::Unacceptable(reason)) => {
                tracing::error!(%stream_id, reason, "journal refuses the request");
                let refused = KeyError::NotStored(Code::INTERNAL_ERROR.into());
                return Err(if unknown { KeyError::OutcomeUnknown } else { refused });
            }
        }
        if let Some(keyed) = journal.load(stream_id).await.ok().and_then(|commits| Keyed::found(commits, commit)) {
            return Ok(keyed);
        }
    }
    Err(KeyError::OutcomeUnknown)
}

impl Keyed {
    fn found(commits: Vec<Recorded>, commit: &Commit) -> Option<Self> {
        let mine = commits.first()?.commit_id == commit.commit_id;
        Some(Self { commits, mine })
    }
}
