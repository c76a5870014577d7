//! What answers at the gateway's address while it waits for what it depends on, so that who looks hears why.

use std::net::TcpListener as Listening;

use anyhow::{Context, Result};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use config::HttpConfig;
use net::server;

/// Answers at the address until it is taken over.
pub(super) struct Starting {
    listening: Listening,
    answering: JoinHandle<()>,
    over: CancellationToken,
}

impl Starting {
    /// Listens, and answers that the gateway is starting.
    ///
    /// # Errors
    /// When the address is taken.
    pub(super) async fn begin(config: &HttpConfig) -> Result<Self> {
        let bound = TcpListener::bind(config.listen).await;
        let listener = bound.with_context(|| format!("listen on {}", config.listen))?;
        let listening = listener.into_std().context("the listener")?;
        let answers = listening.try_clone().and_then(TcpListener::from_std).context("the listener")?;
        let over = CancellationToken::new();
        let (router, limits) = (api::starting::router(config), config.limits());
        let answering = tokio::spawn(server::serve(answers, router, limits, |_| Some(()), over.clone()));
        tracing::info!(address = %config.listen, "gateway is starting");
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
