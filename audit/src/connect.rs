//! An auditor's connection to NATS, with read-only credentials.

use std::time::Duration;

use async_nats::ConnectError;

use config::AuditorNatsConfig;
use journal_jetstream::{
    connection::{self, Identity},
    raw::RawReader,
};

/// How long one read of a stream tries.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the first connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address or the seed file cannot be used.
    #[error(transparent)]
    Configuration(#[from] connection::Error),
    /// The server cannot be reached, or refuses.
    #[error("connect to NATS at {url}")]
    Connect {
        /// Its address, as configured.
        url: String,
        /// What the client says.
        source: ConnectError,
    },
}

/// A reader with the auditor's credentials.
///
/// # Errors
/// See [`Error`].
pub async fn nats(config: &AuditorNatsConfig) -> Result<RawReader, Error> {
    let ca_file = config.ca_file.as_deref();
    let servers = connection::servers(&config.url, ca_file)?;
    let client = Identity::in_file(&config.seed_file)?
        .options(ca_file)
        .name("gw audit")
        .custom_inbox_prefix(config.inbox_prefix.clone())
        .connection_timeout(CONNECT_TIMEOUT)
        .connect(servers)
        .await
        .map_err(|source| Error::Connect { url: config.url.clone(), source })?;
    Ok(RawReader::new(client, READ_TIMEOUT))
}
