//! Clock of a chain.

use std::time::{SystemTime, UNIX_EPOCH};

/// The clock of a chain, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The machine's, put forward.
    Machine {
        /// By so many milliseconds.
        ahead: i64,
    },
    /// One that stands until it is set.
    Set(i64),
}

impl Clock {
    /// What it shows.
    pub fn now(&self) -> i64 {
        match self {
            Self::Machine { ahead } => machine_time().saturating_add(*ahead),
            Self::Set(time) => *time,
        }
    }

    /// Sets it.
    pub fn set(&mut self, time: i64) {
        let now = self.now();
        match self {
            Self::Machine { ahead } => *ahead = ahead.saturating_add(time.saturating_sub(now)),
            Self::Set(set) => *set = time,
        }
    }
}

fn machine_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
