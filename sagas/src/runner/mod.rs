//! The runner: drives every open payment and quote-request batch of the shards that it holds the lease of.
//!
//! A worker competes for each shard. When it has won one, it looks at everything open in it and from then on at
//! every stream something is appended to, unless it came to rest here with that in it. Wake-ups are hints; each
//! stream is loaded, and everything is decided on what is stored. Two workers that both believe they own a shard do
//! no harm: the expected position fences their appends, and every effect is repeated from journaled bytes or is
//! idempotent.
//!
//! A drive that has waited for a moment ends its task. What it waits for and what it has to remember, a few hundred bytes,
//! stays in its worker's waiting set until it is resumed: by a commit, by what happens on its chain, by a hint or when its time
//! has come (ADR 122).
//!
//! A transient fault is retried with back-off, however long it lasts. What fails in any other way is tried a few times
//! more and then parked with its cause (a dead letter), so that it takes nothing from the rest; an operator's replay brings
//! it back.

mod attestation;
mod backoff;
mod delivery;
mod drive;
mod drive_quote_request;
mod funding;
mod learned;
mod memory;
mod observed;
mod observer;
mod outcome;
mod parking;
mod perform;
mod reassignment;
mod spans;
mod stream;
mod wait;
mod waiting_set;
mod wake_hints;
mod wake_up_dedup;
mod worker;

pub use backoff::Misconfigured;
pub use drive::Engine;
pub use observer::{CommittedPayment, EndedAttempt, Observer, TransactionLeg};
pub use worker::Runner;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use journal::{Journal, parking::Parking};

use crate::{
    ports::{Auction, Chains, Clock, OpenStreams, Selector, Verifier},
    reassignment::ReassignmentRule,
    release::ReleaseRule,
};

/// The world as the engine sees it.
#[derive(Clone)]
pub struct Ports {
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The chains.
    pub chains: Arc<dyn Chains>,
    /// The settlers.
    pub auction: Arc<dyn Auction>,
    /// The quote selectors.
    pub selector: Arc<dyn Selector>,
    /// The verifiers.
    pub verifier: Arc<dyn Verifier>,
    /// The read model of open payments and batches.
    pub open_streams: Arc<dyn OpenStreams>,
    /// What keeps failing, out of the way of the rest.
    pub parking: Arc<dyn Parking>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// Waiting times of the engine, and how long it leaves others to act first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// First wait after a transient fault; doubles with each further one.
    pub backoff_min: Duration,
    /// Longest wait after a transient fault.
    pub backoff_max: Duration,
    /// How often in a row, each time at a new block, a chain must refuse a deposit before the payment fails by it.
    pub refusals_max: u32,
    /// How often in a row driving a payment must fail, in a way that is not a transient fault, before it is parked.
    pub tries_max: u32,
    /// The wait after the first such failure; doubles with each further one.
    pub retry_min: Duration,
    /// Longest wait after such a failure.
    pub retry_max: Duration,
    /// From when on the gateway brings the release of a delivery that is confirmed now.
    pub release: ReleaseRule,
    /// Whether and how another settler is found for an escrow whose reservation lapsed.
    pub reassignment: ReassignmentRule,
    /// Where the journal was put in place from a copy: by shard, the last sequence that came out of it. What began up to there is
    /// driven by [`crate::handlers::next_of`].
    pub restored: Option<Arc<BTreeMap<u16, u64>>>,
    /// How often the runner looks for shards that were sealed, which it gives up then.
    pub sealed_look_every: Duration,
    /// For how long a drive that waits keeps its task: what comes at once finds it at work still.
    pub moment: Duration,
    /// How many drives may do so at a time, in this process. The rest end their tasks at once.
    pub moments_max: usize,
    /// How many drives that waited without a task may be resumed at a time, in this process: the rest wait for their turn,
    /// such as when a shard with many open payments is taken over.
    pub resumed_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            refusals_max: 3,
            // A quarter of a minute in all.
            tries_max: 5,
            retry_min: Duration::from_secs(1),
            retry_max: Duration::from_secs(60),
            release: ReleaseRule::DEFAULT,
            reassignment: ReassignmentRule::DEFAULT,
            restored: None,
            sealed_look_every: Duration::from_secs(60),
            moment: Duration::from_secs(2),
            // A dozen kilobytes each.
            moments_max: 1024,
            resumed_max: 256,
        }
    }
}

/// The back-off after the `faults`-th fault in a row, counted from 1.
fn pause_after(options: &Options, faults: u32) -> Duration {
    doubled(options.backoff_min, options.backoff_max, faults)
}

/// `first`, doubled with each time after the first, at most `longest`.
fn doubled(first: Duration, longest: Duration, times: u32) -> Duration {
    let factor = 1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}
