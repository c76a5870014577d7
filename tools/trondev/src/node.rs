//! A running development node.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Blocks, Options, StartError,
    chain::{Chain, Clock},
    http,
};

/// A running development node. Dropping it ends it, and its chain with it.
#[derive(Debug)]
pub struct TronDev {
    address: SocketAddr,
    stopped: CancellationToken,
    _stop: DropGuard,
}

impl TronDev {
    /// Starts a chain with its first two blocks, and its API.
    ///
    /// # Errors
    /// When the address cannot be had or the accounts have more sun than there can be.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let listener = TcpListener::bind(options.bind).await?;
        let address = listener.local_addr()?;
        let blocks = options.blocks;
        let mut chain = Chain::new(options, Clock::Machine { ahead: 0 })?;
        // Clients name the head in their transactions, and read block 0 as one without a number.
        chain.mine()?;
        let chain = Arc::new(Mutex::new(chain));
        let stopped = CancellationToken::new();
        if let Blocks::Every(interval) = blocks {
            let (chain, stopped) = (chain.clone(), stopped.clone());
            tokio::spawn(async move { stopped.run_until_cancelled(make_blocks(chain, interval)).await });
        }
        let until = stopped.clone();
        tokio::spawn(async move {
            let served = axum::serve(listener, http::router(chain))
                .with_graceful_shutdown(async move { until.cancelled().await })
                .await;
            if let Err(error) = served {
                tracing::error!(%error, "the development node's API ended");
            }
        });
        Ok(Self { address, _stop: stopped.clone().drop_guard(), stopped })
    }

    /// Where the API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The API's port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `http://address:port`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends the node: it makes no more blocks and takes no more connections.
    pub fn stop(&self) {
        self.stopped.cancel();
    }
}

async fn make_blocks(chain: Arc<Mutex<Chain>>, interval: Duration) {
    let mut beat = tokio::time::interval(interval.max(Duration::from_millis(1)));
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // The first beat comes at once.
    beat.tick().await;
    loop {
        beat.tick().await;
        let chain = chain.clone();
        let mined = tokio::task::spawn_blocking(move || http::lock(&chain).mine()).await;
        match mined {
            Ok(Ok(_)) => {}
            Ok(Err(refusal)) => tracing::error!(%refusal, "no block was made"),
            Err(error) => tracing::error!(%error, "no block was made"),
        }
    }
}
