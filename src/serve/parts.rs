//! The parts of a process: they run side by side, and end together.

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Parts that end by `shutdown` alone; one that ends before it takes the others with it.
pub(super) struct Parts {
    running: JoinSet<Result<()>>,
    shutdown: CancellationToken,
}

impl Parts {
    /// No part yet.
    pub(super) fn until(shutdown: CancellationToken) -> Self {
        Self { running: JoinSet::new(), shutdown }
    }

    /// Starts a part that may fail.
    pub(super) fn start_fallible(&mut self, part: impl Future<Output = Result<()>> + Send + 'static) {
        self.running.spawn(part);
    }

    /// Starts a part that only ends.
    pub(super) fn start(&mut self, part: impl Future<Output = ()> + Send + 'static) {
        self.start_fallible(async move {
            part.await;
            Ok(())
        });
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// The first failure of a part, or its panic.
    pub(super) async fn join(mut self) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(ended) = self.running.join_next().await {
            let ended = ended.context("a part of the gateway panicked").flatten();
            if !self.shutdown.is_cancelled() {
                tracing::error!("a part of the gateway ended; shutting down");
                self.shutdown.cancel();
            }
            outcome = outcome.and(ended);
        }
        outcome
    }
}
