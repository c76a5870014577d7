//! How many quote-requests may collect quotes at a time: admission control for what nobody pays for. Each takes memory in the
//! gateway that asks, and an answer of every settler, so those above the bound are answered with 503 until others are over.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    error::{ApiError, Code},
    quote_requests::QuoteRequests,
};
use crate::server::Tally;

/// How long a count of the read model is good for. What is admitted in between is added to it.
const COUNT_EVERY: Duration = Duration::from_millis(200);

/// The quote-requests that collect quotes.
pub(super) struct OpenWindows {
    max: usize,
    counted: Mutex<Option<Counted>>,
    refused: Tally,
}

struct Counted {
    at: Instant,
    open: usize,
}

impl OpenWindows {
    /// At most `max` at a time.
    pub(super) fn new(max: usize) -> Self {
        Self { max, counted: Mutex::default(), refused: Tally::default() }
    }

    /// Lets one more in.
    ///
    /// # Errors
    /// 503 `TOO_MANY_QUOTE_REQUESTS`.
    pub(super) fn admit(&self, quote_requests: &dyn QuoteRequests) -> Result<(), ApiError> {
        // A panic while it is held leaves at worst a count that is taken again.
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = counted.take().filter(|counted| counted.at.elapsed() < COUNT_EVERY);
        let mut now = known.unwrap_or_else(|| Counted { at: Instant::now(), open: quote_requests.collecting() });
        let has_room = now.open < self.max;
        now.open += usize::from(has_room);
        *counted = Some(now);
        drop(counted);
        if has_room {
            return Ok(());
        }
        if let Some(refused) = self.refused.count() {
            tracing::warn!(refused, max = self.max, "quote-requests are refused: as many are open as there may be");
        }
        Err(Code::TOO_MANY_QUOTE_REQUESTS.into())
    }
}
