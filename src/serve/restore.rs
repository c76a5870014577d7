//! What a gateway has to know of a restore: before any stream is opened or made, and while it runs (ADR 136).

use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_nats::Client;
use tokio_util::sync::CancellationToken;

use app::admission::{
    pause,
    restore_mark::{RestoreMark, RestoreState, StoredMark},
};
use config::GatewayConfig;
use events::time::Timestamp;
use journal::envelope;
use journal_jetstream::raw::RawReader;

use crate::startup::waiting_for;

/// How long one question tries.
const READ_MAX: Duration = Duration::from_secs(5);
/// How often a running gateway looks for a restore.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why the journal is not opened yet.
#[derive(Debug, thiserror::Error)]
enum NotYet {
    #[error("a restore is under way since {0}, or was interrupted: `gw backup restore` goes on with it")]
    UnderWay(Timestamp),
    #[error(transparent)]
    Unreadable(#[from] pause::Error),
}

impl NotYet {
    fn is_passing(&self) -> bool {
        match self {
            Self::UnderWay(_) => true,
            Self::Unreadable(error) => is_passing(error),
        }
    }
}

/// Waits for the end of a restore, and gives its mark, if the journal was restored.
///
/// # Errors
/// Where there is no journal, and read models here were made from one: a gateway that made a new one would accept payments beside
/// those that are lost, and a restore would find its streams in the way.
pub(super) async fn look(client: &Client, config: &GatewayConfig) -> Result<Option<StoredMark>> {
    let read = || async {
        match RestoreMark::read(client).await? {
            Some(StoredMark { mark: RestoreMark { state: RestoreState::UnderWay, since, .. }, .. }) => {
                Err(NotYet::UnderWay(since))
            }
            mark => Ok(mark),
        }
    };
    let restored = waiting_for("the restore of the journal", NotYet::is_passing, read).await?;
    let directory = &config.projections.directory;
    if projections::were_made(directory).with_context(|| format!("read {}", directory.display()))? {
        let reader = RawReader::new(client.clone(), READ_MAX);
        let first = envelope::stream(0);
        if waiting_for("the journal", |_| true, || reader.describe(&first)).await?.is_none() {
            bail!(
                "the journal is gone: NATS has no stream {first}, and {} holds read models of one. Restore it with `gw backup \
                 restore`; to begin a new journal, move that directory away",
                directory.display()
            );
        }
    }
    Ok(restored)
}

/// That the mark is still `known`: a restore that began while a gateway was being started may have filled only part of the streams
/// that this has opened.
///
/// # Errors
/// When it is another.
pub(super) async fn require_unchanged(client: &Client, known: Option<&StoredMark>) -> Result<()> {
    let read = || RestoreMark::read(client);
    let found = waiting_for("the restore of the journal", is_passing, read).await?;
    require_same(known, found.as_ref())
}

fn require_same(known: Option<&StoredMark>, found: Option<&StoredMark>) -> Result<()> {
    let revision = |mark: Option<&StoredMark>| mark.map_or(0, |mark| mark.revision);
    if revision(known) == revision(found) {
        return Ok(());
    }
    bail!("a restore of the journal was begun while this gateway ran: started again, it waits until that is over")
}

fn is_passing(error: &pause::Error) -> bool {
    matches!(error, pause::Error::Unavailable(_))
}

/// Looks until `shutdown` whether a restore begins, which must not happen under a running gateway.
///
/// # Errors
/// When it does.
pub(super) async fn watch(client: Client, known: Option<StoredMark>, shutdown: CancellationToken) -> Result<()> {
    let looking = async {
        loop {
            // What cannot be read now is read later: without NATS nothing is driven either.
            if let Ok(found) = RestoreMark::read(&client).await {
                require_same(known.as_ref(), found.as_ref())?;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    shutdown.run_until_cancelled(looking).await.unwrap_or(Ok(()))
}
