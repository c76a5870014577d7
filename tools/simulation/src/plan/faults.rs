//! The fault rates of a run.

use crate::random::RandomSource;

/// Fault rates, in a thousand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// An append that is refused before it is stored.
    pub refused: u32,
    /// An append that is stored and not acknowledged.
    pub unacknowledged: u32,
    /// An append that is not acknowledged and stored only later, or never.
    pub stored_late: u32,
    /// An append that is told a conflict.
    pub conflict: u32,
    /// A read of the journal that fails.
    pub unread: u32,
    /// A replay that ends before the head.
    pub stale: u32,
    /// A wake-up that comes twice, late, or behind a later one.
    pub wake_ups: u32,
    /// A shard that changes hands, at each second.
    pub takeover: u32,
    /// A call to a node that is lost on the way.
    pub request_lost: u32,
    /// A call to a node whose answer is lost.
    pub answer_lost: u32,
    /// A call that the node refuses.
    pub refuses: u32,
    /// A call that is answered late.
    pub slow: u32,
    /// A call that a lagging node answers.
    pub lagging: u32,
    /// A call that a node on a dropped branch answers.
    pub on_fork: u32,
    /// A call that a node answers that lies about its head.
    pub lying: u32,
    /// A sleep that ends early, or late.
    pub sleep: u32,
    /// A call of the verifier that is not answered, answered late, or with a wrong signature.
    pub verifier: u32,
    /// A call of the auction that fails before or after its effect.
    pub auction: u32,
    /// A block that comes with a reorganisation.
    pub reorganisation: u32,
    /// A transaction that the pool forgets, at each block.
    pub dropped: u32,
    /// A transaction that is not mined for a time, at each block.
    pub stuck: u32,
    /// A spike of the base fee, at each block.
    pub spike: u32,
    /// A third party that copies a waiting transaction, at each block.
    pub third_party: u32,
    /// A nonce that is not given out because the ledger does not answer, before or after it was stored.
    pub ledger: u32,
    /// A call of a selector that fails.
    pub selector: u32,
    /// A call of the parking that fails.
    pub parking: u32,
    /// A settler's report that is lost or comes twice.
    pub reports: u32,
}

/// In each run some kinds of faults are absent and others frequent: a mixture of everything at all times would hide much.
pub(super) fn faults(random: &RandomSource, routes: &RandomSource) -> Faults {
    let drawn = |random: &RandomSource, max: u64| match random.number(0..=3) {
        0 | 1 => 0,
        2 => random.number(1..=max / 4 + 1) as u32,
        _ => random.number(1..=max) as u32,
    };
    let rate = |max| drawn(random, max);
    Faults {
        refused: rate(200),
        unacknowledged: rate(300),
        stored_late: rate(150),
        conflict: rate(300),
        unread: rate(150),
        stale: rate(500),
        wake_ups: rate(500),
        takeover: rate(60),
        request_lost: rate(60),
        answer_lost: rate(60),
        refuses: rate(60),
        slow: rate(200),
        lagging: rate(150),
        on_fork: rate(150),
        lying: rate(60),
        sleep: rate(200),
        verifier: rate(500),
        auction: rate(300),
        reorganisation: rate(150),
        dropped: rate(200),
        stuck: rate(200),
        spike: rate(150),
        third_party: rate(300),
        ledger: rate(200),
        selector: drawn(routes, 400),
        parking: drawn(routes, 300),
        reports: drawn(routes, 500),
    }
}
