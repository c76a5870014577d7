//! Checkpoint signing: the gateway's part in auditing.

use std::{sync::Arc, time::Duration};

use async_nats::Client;
use chrono::Utc;
use ed25519_dalek::SigningKey;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use journal::Journal;
use journal_jetstream::checkpoint::{Checkpointer, ConnectError, Options, Store};

use config::{AuditConfig, signing_key};

/// How long one request to NATS may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the stream of checkpoints is asked for again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Signs checkpoints of all shards of `journal` until `shutdown`; they are kept in so many `replicas`. Where no key is configured, and where the stream of checkpoints is not as it must
/// be, it says so in the log and signs nothing: payments do not wait for their auditors.
pub async fn run(
    client: Client,
    audit: AuditConfig,
    journal: Arc<dyn Journal>,
    replicas: usize,
    shutdown: CancellationToken,
) {
    let signing = async {
        match audit.checkpoint_key.as_ref().and_then(signing_key) {
            Some(key) => sign(client, key, audit, journal, replicas).await,
            None => tracing::warn!(
                "no [audit] checkpoint_key: auditors will not find a journal that is cut off or written anew"
            ),
        }
    };
    tokio::select! {
        // The other parts of the gateway go on.
        () = signing => shutdown.cancelled().await,
        () = shutdown.cancelled() => {}
    }
}

async fn sign(client: Client, key: SigningKey, audit: AuditConfig, journal: Arc<dyn Journal>, replicas: usize) {
    let store = loop {
        match Store::connect(client.clone(), replicas, TIMEOUT).await {
            Ok(store) => break store,
            Err(ConnectError::Unavailable(reason)) => {
                tracing::debug!(reason, "the stream of checkpoints cannot be had for now");
                sleep(RETRY_PAUSE).await;
            }
            Err(error) => return tracing::error!(%error, "no checkpoints are signed"),
        }
    };
    let options = Options {
        interval: Duration::from_secs(audit.checkpoint_seconds),
        trusted: audit.trusted_signers,
        timeout: TIMEOUT,
    };
    let checkpointer = Checkpointer::new(client, store, key, options);
    tracing::info!(signer = %checkpointer.signer(), "checkpoints are signed");
    checkpointer.run(|| journal.epochs(), Utc::now).await;
}
