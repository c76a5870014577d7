//! What answers at an address of the gateway while it waits for what it depends on, so that who looks hears why.

use std::net::{SocketAddr, TcpListener as Listening};

use anyhow::{Context, Result};
use axum::Router;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use net::server::{self, Limits};

/// Answers at the address until it is taken over.
pub(super) struct Starting {
    listening: Listening,
    answering: JoinHandle<()>,
    over: CancellationToken,
}

impl Starting {
    /// Listens on `address`, which `section` of the configuration names, and answers by `router` that it is starting.
    ///
    /// # Errors
    /// When the address is taken.
    pub(super) async fn begin(section: &str, address: SocketAddr, router: Router, limits: Limits) -> Result<Self> {
        let bound = TcpListener::bind(address).await;
        let listener = bound.with_context(|| format!("listen on {address} for [{section}]"))?;
        let listening = listener.into_std().context("the listener")?;
        let answers = listening.try_clone().and_then(TcpListener::from_std).context("the listener")?;
        let over = CancellationToken::new();
        let answering = tokio::spawn(server::serve(answers, router, limits, |_| Some(()), over.clone()));
        tracing::info!(%address, section, "gateway is starting");
        Ok(Self { listening, answering, over })
    }

    /// The listener, which no connection was refused by meanwhile.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) async fn end(self) -> Result<TcpListener> {
        self.over.cancel();
        self.answering.await.context("what answers while the gateway starts")?;
        TcpListener::from_std(self.listening).context("the listener")
    }
}

#[cfg(test)]
mod tests {
    use gateway_console::{LIMITS, starting};

    use super::*;

    #[tokio::test]
    async fn an_address_that_is_taken_is_named_with_its_section() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = Starting::begin("console", address, starting(), LIMITS).await.err().unwrap();
        assert_eq!(error.to_string(), format!("listen on {address} for [console]"));
    }
}
