//! The operators' console of a gateway: its address is taken before anything else is done, and what it needs of NATS is
//! opened while the gateway serves. No payment waits for it.

use anyhow::Result;
use tokio_util::sync::CancellationToken;

use config::ConsoleConfig;

use super::starting::Starting;
use crate::console::GatewayConsole;

/// Listens where the configuration says, if it does, and answers that the console is starting.
///
/// # Errors
/// When the address is taken.
pub(super) async fn begin(config: &ConsoleConfig) -> Result<Option<Starting>> {
    let Some(listen) = config.listen else { return Ok(None) };
    if let Some(listen) = config.beyond_loopback() {
        tracing::warn!(%listen, "tokens of operators go to this address over plain HTTP; put TLS before it");
    }
    let router = gateway_console::starting();
    Starting::begin("console", listen, router, gateway_console::LIMITS).await.map(Some)
}

/// Answers operators until `shutdown`, once there is what that needs.
///
/// # Errors
/// When the system takes the listener away.
pub(super) async fn run(console: GatewayConsole, starting: Starting, shutdown: CancellationToken) -> Result<()> {
    match shutdown.run_until_cancelled(console.opened()).await {
        Some(Ok(parts)) => {
            let listener = starting.end().await?;
            tracing::info!(address = ?listener.local_addr().ok(), "the operators' console is here");
            gateway_console::serve(listener, parts, shutdown).await;
        }
        Some(Err(error)) => {
            let error = format!("{error:#}");
            tracing::error!(error, "there is no operators' console until this is mended and the gateway started again");
            shutdown.cancelled().await;
        }
        None => {}
    }
    Ok(())
}
