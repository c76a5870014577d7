//! Back-off: for how long a node is left alone that is asked too often.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The first pause; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// The pauses of all requests to one node.
#[derive(Debug)]
pub(super) struct BackOff(Mutex<State>);

#[derive(Debug)]
struct State {
    pause: Duration,
    until: Instant,
}

impl BackOff {
    /// No pause yet.
    pub fn new() -> Self {
        Self(Mutex::new(State { pause: Duration::ZERO, until: Instant::now() }))
    }

    /// Returns when the node may be asked.
    pub async fn over(&self) {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner).until;
        tokio::time::sleep_until(until).await;
    }

    /// The node said so to a request that was sent at `asked_at`.
    pub fn begin(&self, asked_at: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if asked_at < state.until {
            // It was on its way when the pause began.
            return;
        }
        state.pause = lengthened(state.pause);
        state.until = Instant::now() + state.pause;
    }

    /// The node answered.
    pub fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pause = Duration::ZERO;
    }
}

/// The pause after one of this length.
pub(super) fn lengthened(pause: Duration) -> Duration {
    (2 * pause).clamp(PAUSE_MIN, PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_and_all_requests_share_them() {
        let (back_off, started) = (BackOff::new(), Instant::now());
        back_off.over().await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        for _ in 0..16 {
            back_off.begin(started);
        }
        back_off.over().await;
        assert_eq!(started.elapsed().as_millis() / 10, 25);
        back_off.begin(Instant::now());
        back_off.over().await;
        assert_eq!(started.elapsed().as_millis() / 10, 75);
        back_off.end();
        back_off.begin(Instant::now());
        back_off.over().await;
        assert_eq!(started.elapsed().as_millis() / 10, 100);
        assert_eq!(lengthened(PAUSE_MAX), PAUSE_MAX);
    }
}
