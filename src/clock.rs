//! The system's clock as the engine's port.

use std::time::Duration;

use async_trait::async_trait;
use chrono::Utc;

use events::time::Timestamp;
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
