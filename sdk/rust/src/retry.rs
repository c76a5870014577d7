//! Retry: the table of `retry_classification` as code, and the back-off between two sendings of the same request.

use std::time::Duration;

use rand::Rng;

use events::failure::RetryClassification;

use crate::error::{Error, Refusal};

/// The first pause where nobody says how long.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// What is asked for by `Retry-After` and is longer is cut: the caller's own deadline decides.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// What to do after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send the same bytes again, after so long where the gateway says how long. It is safe: one `request_id` is one payment.
    SendAgain(Option<Duration>),
    /// Ask again when something has changed that only the caller can change: money, an allowance, another deadline.
    ChangeThenSend,
    /// Try anew under a new `request_id`; the old one is spent.
    NewRequestId,
    /// The request itself is wrong; correct it.
    FixRequest,
    /// Nothing that the caller changes helps.
    GiveUp,
    /// Find out what happened before anything else is done.
    Reconcile,
    /// The gateway does not classify it: no retry is known to be safe but that of the same `request_id`.
    Unclassified,
}

impl Next {
    /// What a classification says of a request that was answered with `status`; `None` of one that is not known here.
    ///
    /// - 429, 503: nothing was accepted, and the same request may be.
    /// - Other faults of the server (500, 502, 504): it may have been accepted. Only the same request tells.
    /// - `RETRY_AFTER_DELAY` of a 409 is a state that passes by itself; of another 4xx it is the caller's to change.
    pub fn of(status: u16, classification: Option<RetryClassification>, after: Option<Duration>) -> Self {
        match (status, classification) {
            (429 | 500.., _) | (409, Some(RetryClassification::RetryAfterDelay)) => Self::SendAgain(after),
            (_, Some(RetryClassification::RetryAfterDelay)) => Self::ChangeThenSend,
            (_, Some(RetryClassification::RetryWithNewRequestId)) => Self::NewRequestId,
            (_, Some(RetryClassification::NotRetryableFixRequest)) => Self::FixRequest,
            (_, Some(RetryClassification::NotRetryable)) => Self::GiveUp,
            (_, Some(RetryClassification::ReconcileThenDecide)) => Self::Reconcile,
            (_, None) => Self::Unclassified,
        }
    }
}

impl Refusal {
    /// What to do next.
    pub fn next(&self) -> Next {
        Next::of(self.status, self.retry_classification, self.retry_after)
    }

    /// Whether the same request, sent again, is what helps.
    pub(crate) fn asks_again(&self) -> bool {
        matches!(self.next(), Next::SendAgain(_))
    }
}

impl Error {
    /// How long to wait before the same request is sent again; `None` where that is not what helps.
    pub(crate) fn pause(&self, backoff: &mut Backoff) -> Option<Duration> {
        let after = match self {
            Self::NoAnswer(unknown) => unknown.retry_after,
            Self::Refused(refusal) => match refusal.next() {
                Next::SendAgain(after) => after,
                _ => return None,
            },
            _ => return None,
        };
        let pause = backoff.next();
        Some(after.map_or(pause, |after| after.min(RETRY_AFTER_MAX).max(pause)))
    }
}

/// Pauses that double, each cut at random so that callers who failed together do not come back together.
#[derive(Debug, Clone)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(PAUSE_FIRST)
    }
}

impl Backoff {
    pub(crate) fn next(&mut self) -> Duration {
        let longest = self.0;
        self.0 = longest.saturating_mul(2).min(PAUSE_MAX);
        longest.mul_f64(rand::thread_rng().gen_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use events::failure::RetryClassification::{
        NotRetryable, NotRetryableFixRequest, ReconcileThenDecide, RetryAfterDelay, RetryWithNewRequestId,
    };

    use super::*;
    use crate::error::NoAnswer;

    fn refusal(status: u16, classification: Option<RetryClassification>) -> Refusal {
        Refusal {
            status,
            code: "X".to_owned(),
            message: String::new(),
            request_id: None,
            payment_id: None,
            docs_url: None,
            domain: None,
            retry_classification: classification,
            request_id_reusable: None,
            retry_after: None,
        }
    }

    #[test]
    fn the_table() {
        for (status, classification, next) in [
            (503, Some(RetryAfterDelay), Next::SendAgain(None)),
            (429, None, Next::SendAgain(None)),
            (500, Some(ReconcileThenDecide), Next::SendAgain(None)),
            (409, Some(RetryAfterDelay), Next::SendAgain(None)),
            (409, Some(ReconcileThenDecide), Next::Reconcile),
            (409, Some(RetryWithNewRequestId), Next::NewRequestId),
            (400, Some(RetryAfterDelay), Next::ChangeThenSend),
            (400, Some(NotRetryableFixRequest), Next::FixRequest),
            (403, Some(NotRetryable), Next::GiveUp),
            (400, None, Next::Unclassified),
        ] {
            assert_eq!(refusal(status, classification).next(), next, "{status} {classification:?}");
        }
    }

    #[test]
    fn what_is_asked_for_is_waited_and_no_less_than_the_back_off() {
        let mut backoff = Backoff::default();
        let busy = Refusal { retry_after: Some(Duration::from_secs(3)), ..refusal(503, Some(RetryAfterDelay)) };
        assert_eq!(Error::from(busy).pause(&mut backoff), Some(Duration::from_secs(3)));
        let for_ever = Refusal { retry_after: Some(Duration::MAX), ..refusal(429, None) };
        assert_eq!(Error::from(for_ever).pause(&mut backoff), Some(RETRY_AFTER_MAX));
        let silent = Error::from(NoAnswer::new("a reset"));
        for _ in 0..20 {
            let pause = silent.pause(&mut backoff).unwrap();
            assert!((PAUSE_FIRST / 2..=PAUSE_MAX).contains(&pause), "{pause:?}");
        }
        assert_eq!(Error::from(refusal(400, Some(NotRetryableFixRequest))).pause(&mut backoff), None);
        assert_eq!(Error::Node("away".to_owned()).pause(&mut backoff), None);
    }
}
