//! Clocks as the engine's port.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use chrono::Utc;

use events::time::Timestamp;
use journal_jetstream::server_clock::ServerClock;
use sagas::ports::Clock;

/// Wall clock and tokio timers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Utc::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The time of the NATS servers, which gateways share, and tokio timers (ADR 152).
#[derive(Clone)]
pub struct SharedClock(pub Arc<ServerClock>);

#[async_trait]
impl Clock for SharedClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
