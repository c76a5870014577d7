//! A quote selector, put together from its configuration.

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use auction::selector;
use config::SelectorConfig;
use journal_jetstream::connection;

use crate::{
    nats::client::{connect_with, is_away},
    startup::waiting_for,
};

/// Runs a quote selector until `shutdown`.
///
/// # Errors
/// When the configuration cannot be used, NATS refuses, or the connection is closed for good.
pub async fn selector(config: SelectorConfig, shutdown: CancellationToken) -> Result<()> {
    let signer = config.signer()?;
    let ca_file = config.nats.ca_file.as_deref();
    let (servers, identity) = (connection::servers(&config.nats.url, ca_file)?, config.identity()?);
    let connecting =
        waiting_for("NATS", is_away, || connect_with(servers.clone(), identity.options(ca_file), "gw selector"));
    let Some(client) = shutdown.run_until_cancelled(connecting).await.transpose()? else { return Ok(()) };
    Ok(selector::run(client, signer, config.rule, config.delivery_seconds_max, shutdown).await?)
}
