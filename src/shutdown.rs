//! Shutdown: the signals that tell a process to end.

use anyhow::Result;
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGINT or SIGTERM; a second signal ends the process at once.
///
/// # Errors
/// When signal handlers cannot be installed.
pub fn shutdown_on_signal() -> Result<CancellationToken> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        tracing::info!("shutting down; a second signal ends the process at once");
        cancelled.cancel();
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        std::process::exit(130);
    });
    Ok(token)
}
