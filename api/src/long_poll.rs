//! Long poll: for how long a request is held for its outcome.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

/// When the head of a request was there. The hold counts from then on (spec 8), whatever the body and the checks have taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival(pub(super) Instant);

impl Arrival {
    /// How long ago it was.
    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// What is left of a hold that is to take so long.
    pub(super) fn left(self, longest: Duration) -> Duration {
        longest.saturating_sub(self.elapsed())
    }
}

/// How long to hold: the configured time, shortened by `Prefer: wait=N` in seconds (RFC 7240).
pub(super) fn longest(headers: &HeaderMap, long_poll_max: Duration) -> Duration {
    wait_asked(headers).map_or(long_poll_max, |seconds| Duration::from_secs(seconds).min(long_poll_max))
}

/// The header `Preference-Applied`, when the long poll is as long as the caller wants it (RFC 7240).
pub(super) type Applied = Option<[(HeaderName, HeaderValue); 1]>;

/// What to say about the caller's `Prefer: wait=N`: nothing where the long poll is shorter than it wants.
pub(super) fn applied(headers: &HeaderMap, long_poll_max: Duration) -> Applied {
    let seconds = wait_asked(headers).filter(|seconds| Duration::from_secs(*seconds) <= long_poll_max)?;
    let value = HeaderValue::try_from(format!("wait={seconds}")).ok()?;
    Some([(HeaderName::from_static("preference-applied"), value)])
}

fn wait_asked(headers: &HeaderMap) -> Option<u64> {
    let preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut parameters = preferences.flat_map(|value| value.split([',', ';']));
    parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let seconds = value.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("wait").then_some(seconds)
    })
}
