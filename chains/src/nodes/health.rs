//! Health of a node: what its last answers say about asking it first, and how long its answer is waited for alone.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// The first rest after a call without an answer; each further one doubles it.
const REST: Duration = Duration::from_millis(250);
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(30);
/// For so long a node that was alone with its word is asked after the others.
const DISTRUSTED: Duration = Duration::from_secs(60);
/// For so long a node of another chain is left out before it is asked again which one it is of.
const UNUSABLE: Duration = Duration::from_secs(30);
/// For so long a node's newest block and its latency say something about it.
const KEPT: Duration = Duration::from_secs(15);
/// A node whose answers take so many times as long as the fastest one's is slow.
const SLOW_TIMES: u32 = 4;
/// Differences below this are not a node's.
const SLOW_LEAST: Duration = Duration::from_millis(100);
/// How long an answer is waited for alone: so many times the node's latency, within these bounds.
const HEDGE_TIMES: u32 = 4;
const HEDGE_LEAST: Duration = Duration::from_millis(50);
const HEDGE_MOST: Duration = Duration::from_secs(2);
const HEDGE_UNKNOWN: Duration = Duration::from_millis(500);

/// How willingly a node is asked: the lower the sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Good,
    /// It lags, is slow, or was alone with its word.
    Doubtful,
    /// It gave no answer lately.
    Resting,
    /// It is of another chain, or refuses who asks.
    Unusable,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    rests_until: Option<Instant>,
    unusable_until: Option<Instant>,
    distrusted_until: Option<Instant>,
    latency: Option<(Duration, Instant)>,
    height: Option<(u64, Instant)>,
}

/// What is known of one node.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<State>);

fn is_ahead(until: Option<Instant>, now: Instant) -> bool {
    until.is_some_and(|until| until > now)
}

impl Health {
    // Nothing panics while it is held.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It answered, and took so long.
    pub fn answered(&self, took: Duration, now: Instant) {
        let mut state = self.state();
        (state.failures, state.rests_until, state.unusable_until) = (0, None, None);
        let before = state.latency.filter(|(_, at)| now.duration_since(*at) < KEPT).map(|(latency, _)| latency);
        let latency = before.map_or(took, |before| (before * 3 + took) / 4);
        state.latency = Some((latency, now));
    }

    /// It has not answered for so long, and another was asked instead.
    pub fn kept_waiting(&self, waited: Duration, now: Instant) {
        let mut state = self.state();
        let before = state.latency.map_or(Duration::ZERO, |(latency, _)| latency);
        state.latency = Some((before.max(waited), now));
    }

    /// It gave no answer.
    pub fn failed(&self, now: Instant) {
        let mut state = self.state();
        let rest = REST.saturating_mul(1 << state.failures.min(16)).min(REST_MAX);
        state.failures = state.failures.saturating_add(1);
        state.rests_until = Some(now + rest);
    }

    /// It is of another chain, or refuses who asks.
    pub fn is_unusable(&self, now: Instant) {
        self.state().unusable_until = Some(now + UNUSABLE);
    }

    /// Its word stood alone against others'.
    pub fn was_alone(&self, now: Instant) {
        self.state().distrusted_until = Some(now + DISTRUSTED);
    }

    /// Its newest block has this number.
    pub fn is_at(&self, height: u64, now: Instant) {
        self.state().height = Some((height, now));
    }

    /// Its newest block's number, if that was said lately.
    pub fn height(&self, now: Instant) -> Option<u64> {
        self.state().height.filter(|(_, at)| now.duration_since(*at) < KEPT).map(|(height, _)| height)
    }

    /// How long its answers take, if it gave some lately.
    pub fn latency(&self, now: Instant) -> Option<Duration> {
        self.state().latency.filter(|(_, at)| now.duration_since(*at) < KEPT).map(|(latency, _)| latency)
    }

    /// How willingly it is asked, where the fastest node's answers take `fastest` and blocks below `height_least` lag.
    pub fn standing(&self, fastest: Option<Duration>, height_least: u64, now: Instant) -> Standing {
        let (latency, height) = (self.latency(now), self.height(now));
        let is_slow = match (latency, fastest) {
            (Some(latency), Some(fastest)) => latency > fastest * SLOW_TIMES + SLOW_LEAST,
            _ => false,
        };
        let lags = height.is_some_and(|height| height < height_least);
        let state = self.state();
        if is_ahead(state.unusable_until, now) {
            Standing::Unusable
        } else if is_ahead(state.rests_until, now) {
            Standing::Resting
        } else if is_ahead(state.distrusted_until, now) || is_slow || lags {
            Standing::Doubtful
        } else {
            Standing::Good
        }
    }

    /// How long its answer is waited for before another node is asked, too.
    pub fn hedge_after(&self, now: Instant) -> Duration {
        let latency = self.latency(now);
        latency.map_or(HEDGE_UNKNOWN, |latency| (latency * HEDGE_TIMES).clamp(HEDGE_LEAST, HEDGE_MOST))
    }
}
