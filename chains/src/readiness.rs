//! Readiness by chain, a circuit breaker for each: whether anything new may go through a chain, and why not (ADR 137).
//!
//! [`State`] is pure: a look at the chain and a time go in, a cause comes out. [`ChainsReadiness`] is what all parts of a gateway
//! share; somebody else looks at the chains ([`ReadinessProbe`]) and tells it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;

use events::{Account, ChainId};
use sagas::ports::Transient;

/// A node that has not answered for so long counts as dead,
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// and only when so many looks in a row had no answer: one question that takes its whole time may take as long by itself.
const SILENT_LOOKS: u32 = 2;
/// A chain without a new block for so long stands still, or its node does.
const STALLED_AFTER: Duration = Duration::from_secs(5 * 60);
/// So often in a row a node must say the same that only an operator can mend: one of several behind an address may err.
const REFUSALS: u32 = 3;
/// Pause between two looks at a chain that is ready.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Pause after the first look that found a fault; each further one doubles it.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause, and so the longest that a chain that is back is still refused.
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// Contracts that were as they should be are looked at again after so long.
const CONTRACTS_KEPT: Duration = Duration::from_secs(60);

/// Why nothing new may go through a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its node does not answer, or not in a way that can be believed.
    NodeSilent,
    /// Its node answers, and there is no new block.
    NodeStalled,
    /// Its node is of another chain.
    OtherChain,
    /// There is no contract at the address of the escrow or of the fulfillment proxy.
    ContractMissing,
    /// The escrow does not keep records as this version reads them.
    ContractUnreadable,
}

impl Cause {
    /// Its name in answers of `/readyz`.
    pub fn name(self) -> &'static str {
        match self {
            Self::NodeSilent => "node_silent",
            Self::NodeStalled => "node_stalled",
            Self::OtherChain => "other_chain",
            Self::ContractMissing => "contract_missing",
            Self::ContractUnreadable => "contract_unreadable",
        }
    }

    /// What it means, in words that anyone may read.
    pub fn text(self) -> &'static str {
        match self {
            Self::NodeSilent => "its node does not answer",
            Self::NodeStalled => "it has no new block",
            Self::OtherChain => "its node is of another chain",
            Self::ContractMissing => "there is no contract at the address of its escrow or fulfillment proxy",
            Self::ContractUnreadable => "the contract at its escrow's address is not an escrow of this version",
        }
    }

    /// Whether money that was sent into the escrow could not be told or brought back. Time does not mend it.
    fn forbids_deposits(self) -> bool {
        match self {
            Self::OtherChain | Self::ContractMissing | Self::ContractUnreadable => true,
            Self::NodeSilent | Self::NodeStalled => false,
        }
    }
}

/// What one look at a chain came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The newest block or slot, and contracts as they should be, where they were looked at.
    Head(u64),
    /// The node is of another chain.
    OtherChain,
    /// There is no contract where the escrow or the proxy should be.
    ContractMissing,
    /// The escrow is of another layout.
    ContractUnreadable,
}

/// What looks at one chain.
#[async_trait]
pub trait ReadinessProbe: Send + Sync {
    /// The chain.
    fn chain_id(&self) -> &ChainId;

    /// Looks at the chain: whether the node is of it, its newest block, and the contracts where they are asked for.
    ///
    /// # Errors
    /// [`Transient`], where nothing follows.
    async fn look(&self, contracts: bool) -> Result<Look, Transient>;
}

/// Says that the chain's own escrow was found to take reassignments, or to take none. Nothing is lost without them, so the chain
/// is ready all the same.
pub fn say_reassignments(chain: &ChainId, escrow: &Account, takes: bool) {
    match takes {
        true => tracing::info!(%chain, %escrow, "the escrow takes reassignments"),
        false => tracing::warn!(%chain, %escrow,
            "the escrow is of a version without reassignments: where a settler does not deliver, the money goes back"),
    }
}

/// The readiness of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    cause: Option<Cause>,
    /// What an operator has to mend, and how often in a row it was said.
    refused: Option<(Cause, u32)>,
    head: Option<u64>,
    answered_at: Instant,
    moved_at: Instant,
    contracts_seen_at: Option<Instant>,
    /// Looks in a row that found a fault.
    faults: u32,
}

impl State {
    /// A chain that nobody has looked at. It counts as ready: what is accepted asks the chain itself.
    pub fn new(now: Instant) -> Self {
        Self {
            cause: None,
            refused: None,
            head: None,
            answered_at: now,
            moved_at: now,
            contracts_seen_at: None,
            faults: 0,
        }
    }

    /// Why nothing new may go through it; `None` where it is ready.
    pub fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Whether the contracts are to be looked at next.
    pub fn wants_contracts(&self, now: Instant) -> bool {
        let is_fresh = self.contracts_seen_at.is_some_and(|seen| now.duration_since(seen) < CONTRACTS_KEPT);
        // What was silent may be another chain's node, or an empty chain's, when it is back.
        self.faults > 0 || !is_fresh
    }

    /// Takes in a look that began at `now`; `contracts` says whether it looked at them.
    pub fn observe(&mut self, look: Result<Look, ()>, contracts: bool, now: Instant) {
        let refusal = match look {
            Ok(Look::Head(number)) => return self.answered(number, contracts, now),
            Err(()) => {
                self.faults = self.faults.saturating_add(1);
                self.refused = None;
                let is_long = now.duration_since(self.answered_at) >= SILENT_AFTER;
                if is_long && self.faults >= SILENT_LOOKS {
                    self.cause = Some(Cause::NodeSilent);
                }
                return;
            }
            Ok(Look::OtherChain) => Cause::OtherChain,
            Ok(Look::ContractMissing) => Cause::ContractMissing,
            Ok(Look::ContractUnreadable) => Cause::ContractUnreadable,
        };
        self.answered_at = now;
        self.faults = self.faults.saturating_add(1);
        let before = self.refused.filter(|(cause, _)| *cause == refusal).map_or(0, |(_, times)| times);
        let times = before.saturating_add(1);
        self.refused = Some((refusal, times));
        if times >= REFUSALS {
            self.cause = Some(refusal);
        }
    }

    fn answered(&mut self, number: u64, contracts: bool, now: Instant) {
        // While contracts are in doubt, a head alone says nothing of them.
        if !contracts && (self.faults > 0 || self.contracts_seen_at.is_none()) {
            return;
        }
        self.answered_at = now;
        self.refused = None;
        if contracts {
            self.contracts_seen_at = Some(now);
        }
        if self.head != Some(number) {
            self.head = Some(number);
            self.moved_at = now;
        }
        let is_stalled = now.duration_since(self.moved_at) >= STALLED_AFTER;
        self.cause = is_stalled.then_some(Cause::NodeStalled);
        self.faults = if is_stalled { self.faults.saturating_add(1) } else { 0 };
    }

    /// How long to wait before the next look.
    pub fn pause(&self) -> Duration {
        match self.faults.checked_sub(1) {
            None => LOOK_EVERY,
            Some(doublings) => PAUSE_MIN.saturating_mul(1 << doublings.min(8)).min(PAUSE_MAX),
        }
    }
}

/// The readiness of all chains that are served; cheap to clone, and the clones are one.
#[derive(Debug, Clone, Default)]
pub struct ChainsReadiness(Arc<BTreeMap<ChainId, Mutex<State>>>);

impl ChainsReadiness {
    /// Chains that nobody has looked at yet.
    pub fn new(chains: impl IntoIterator<Item = ChainId>) -> Self {
        let now = Instant::now();
        Self(Arc::new(chains.into_iter().map(|chain| (chain, Mutex::new(State::new(now)))).collect()))
    }

    /// Why nothing new may go through this chain; `None` where it is ready, or not among those that are looked at.
    pub fn cause(&self, chain: &ChainId) -> Option<Cause> {
        self.0.get(chain).and_then(|state| locked(state).cause())
    }

    /// Every chain with its cause, in order of their ids.
    pub fn all(&self) -> impl Iterator<Item = (&ChainId, Option<Cause>)> {
        self.0.iter().map(|(chain, state)| (chain, locked(state).cause()))
    }

    /// Whether money may be sent into the chain's escrow.
    ///
    /// # Errors
    /// [`Transient::Misconfigured`], where it could not be told or brought back.
    pub fn check_deposits(&self, chain: &ChainId) -> Result<(), Transient> {
        match self.cause(chain).filter(|cause| cause.forbids_deposits()) {
            None => Ok(()),
            Some(cause) => Err(Transient::misconfigured(format!("nothing is deposited on {chain}: {}", cause.text()))),
        }
    }

    /// Looks at the chain of `probe` once, for `look_max` at most; how long to wait before the next look, and whether the chain
    /// is ready.
    ///
    /// A change is logged once.
    pub async fn look(&self, probe: &dyn ReadinessProbe, look_max: Duration) -> (Duration, bool) {
        let chain = probe.chain_id();
        let Some(state) = self.0.get(chain) else { return (PAUSE_MAX, true) };
        let contracts = locked(state).wants_contracts(Instant::now());
        let look = tokio::time::timeout(look_max, probe.look(contracts)).await;
        let look = look.unwrap_or_else(|_| Err(Transient::unreachable("a look took too long")));
        let fault = look.as_ref().err().map(ToString::to_string);
        let mut state = locked(state);
        let before = state.cause();
        state.observe(look.map_err(drop), contracts, Instant::now());
        match (before, state.cause()) {
            (before, after) if before == after => {}
            (_, Some(cause)) => {
                let (cause, means) = (cause.name(), cause.text());
                tracing::error!(%chain, cause, fault, "nothing new is accepted on this chain: {means}");
            }
            (_, None) => tracing::info!(%chain, "the chain is ready again"),
        }
        (state.pause(), state.cause().is_none())
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // No panic leaves it half changed: a cause is one word.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        state: State,
        start: Instant,
    }

    impl World {
        fn new() -> Self {
            let start = Instant::now();
            Self { state: State::new(start), start }
        }

        fn at(&mut self, seconds: u64, look: Result<Look, ()>) -> Option<Cause> {
            let now = self.start + Duration::from_secs(seconds);
            let contracts = self.state.wants_contracts(now);
            self.state.observe(look, contracts, now);
            self.state.cause()
        }
    }

    #[test]
    fn a_node_is_dead_when_it_was_silent_for_long_and_back_at_its_first_answer() {
        let mut world = World::new();
        assert_eq!(world.at(0, Err(())), None);
        assert_eq!(world.at(9, Err(())), None);
        assert_eq!(world.at(10, Err(())), Some(Cause::NodeSilent));
        assert_eq!(world.at(12, Ok(Look::Head(7))), None);
        assert_eq!(world.at(21, Err(())), None, "the silence begins with the last answer");
        assert_eq!(world.at(22, Err(())), Some(Cause::NodeSilent));
        assert_eq!(world.at(23, Ok(Look::Head(8))), None);
        assert_eq!(world.at(33, Err(())), None, "one question that took its whole time");
        assert_eq!(world.at(34, Err(())), Some(Cause::NodeSilent));
    }

    #[test]
    fn what_an_operator_must_mend_is_said_three_times_in_a_row() {
        for (look, cause) in [
            (Look::OtherChain, Cause::OtherChain),
            (Look::ContractMissing, Cause::ContractMissing),
            (Look::ContractUnreadable, Cause::ContractUnreadable),
        ] {
            let mut world = World::new();
            assert_eq!(world.at(0, Ok(look)), None);
            assert_eq!(world.at(1, Ok(look)), None);
            // Another node behind the address says otherwise.
            assert_eq!(world.at(2, Ok(Look::Head(1))), None);
            assert_eq!(world.at(3, Ok(look)), None);
            assert_eq!(world.at(4, Ok(look)), None);
            assert_eq!(world.at(5, Ok(look)), Some(cause));
            assert_eq!(world.at(6, Ok(Look::Head(2))), None);
        }
    }

    #[test]
    fn different_refusals_do_not_add_up() {
        let mut world = World::new();
        for second in 0..6 {
            let look = if second % 2 == 0 { Look::OtherChain } else { Look::ContractMissing };
            assert_eq!(world.at(second, Ok(look)), None);
        }
    }

    #[test]
    fn a_chain_without_new_blocks_stands_still() {
        let mut world = World::new();
        assert_eq!(world.at(0, Ok(Look::Head(7))), None);
        assert_eq!(world.at(299, Ok(Look::Head(7))), None);
        assert_eq!(world.at(300, Ok(Look::Head(7))), Some(Cause::NodeStalled));
        assert_eq!(world.at(301, Ok(Look::Head(8))), None);
    }

    #[test]
    fn contracts_are_looked_at_again_after_a_fault_and_once_a_minute() {
        let mut world = World::new();
        let wants = |world: &World, seconds| world.state.wants_contracts(world.start + Duration::from_secs(seconds));
        assert!(wants(&world, 0));
        world.at(0, Ok(Look::Head(1)));
        assert!(!wants(&world, 59));
        assert!(wants(&world, 60));
        // Should they have to be looked at only since the look began, it still is an answer.
        world.state.observe(Ok(Look::Head(2)), false, world.start + Duration::from_secs(61));
        assert_eq!(world.state.head, Some(2));
        world.at(62, Ok(Look::Head(3)));
        world.at(65, Err(()));
        assert!(wants(&world, 66));
        // A head without a look at them does not clear what was said of them.
        for second in 66..69 {
            world.at(second, Ok(Look::ContractMissing));
        }
        let now = world.start + Duration::from_secs(69);
        world.state.observe(Ok(Look::Head(4)), false, now);
        assert_eq!(world.state.cause(), Some(Cause::ContractMissing));
    }

    #[test]
    fn looks_back_off_and_never_for_long() {
        let mut world = World::new();
        world.at(0, Ok(Look::Head(1)));
        assert_eq!(world.state.pause(), LOOK_EVERY);
        let pauses: Vec<u64> = (1..8)
            .map(|second| {
                world.at(second, Err(()));
                world.state.pause().as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 8, 8, 8]);
    }

    #[test]
    fn money_is_not_sent_where_it_could_not_be_told() {
        let chain: ChainId = "eip155:1".parse().unwrap();
        let readiness = ChainsReadiness::new([chain.clone()]);
        let observe = |look: Result<Look, ()>, times: usize| {
            let mut state = locked(readiness.0.get(&chain).unwrap());
            for _ in 0..times {
                state.observe(look, true, Instant::now());
            }
        };
        assert!(readiness.check_deposits(&chain).is_ok());
        observe(Ok(Look::ContractUnreadable), 3);
        assert_eq!(readiness.cause(&chain), Some(Cause::ContractUnreadable));
        assert!(matches!(readiness.check_deposits(&chain), Err(Transient::Misconfigured(_))));
        observe(Ok(Look::Head(1)), 1);
        assert!(readiness.check_deposits(&chain).is_ok());
        assert_eq!(readiness.cause(&"eip155:2".parse().unwrap()), None);
    }
}
