//! Points in time.

use chrono::{DateTime, Utc};

/// A point in time, UTC. Written as RFC 3339 in JSON; floored to whole seconds wherever it meets a chain.
pub type Timestamp = DateTime<Utc>;

/// UNIX seconds of `at`, floored; what a contract's `uint48` holds. Times before 1970 count as 0.
pub fn unix_seconds(at: Timestamp) -> u64 {
    u64::try_from(at.timestamp()).unwrap_or(0)
}

/// The point in time `seconds` after the UNIX epoch, or `None` beyond the calendar's range.
pub fn from_unix_seconds(seconds: u64) -> Option<Timestamp> {
    DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)
}
