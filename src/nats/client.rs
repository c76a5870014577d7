//! Connections to NATS, each under a name in the server's own reports.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::{Client, ConnectErrorKind, ConnectOptions};

use config::NatsConfig;
use journal_jetstream::connection::{CONNECT_MAX, PING_EVERY};

/// Longest pause between two attempts to reach NATS again.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);

/// A client with the gateway's credentials, called `name` in the server's own reports.
///
/// # Errors
/// When the server cannot be reached now, or refuses.
pub(crate) async fn connect(config: &NatsConfig, name: &str) -> Result<Client> {
    let (servers, options) = config.client()?;
    connect_with(servers, options, name).await
}

/// The same with options of its own.
///
/// # Errors
/// As [`connect`].
pub(crate) async fn connect_with(servers: Vec<String>, options: ConnectOptions, name: &str) -> Result<Client> {
    let addresses = servers.join(", ");
    options
        .name(name)
        .max_reconnects(None)
        .ping_interval(PING_EVERY)
        .connection_timeout(CONNECT_MAX)
        .reconnect_delay_callback(|attempts| {
            let pause = Duration::from_millis(50).saturating_mul(u32::try_from(attempts).unwrap_or(u32::MAX));
            pause.min(RECONNECT_PAUSE_MAX)
        })
        .connect(servers)
        .await
        .with_context(|| format!("connect to NATS at {addresses}"))
}

/// Whether no server was reached at all, as against one that refuses.
pub(crate) fn is_away(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(async_nats::ConnectError::kind);
    matches!(kind, Some(ConnectErrorKind::Io | ConnectErrorKind::TimedOut | ConnectErrorKind::Dns))
}
