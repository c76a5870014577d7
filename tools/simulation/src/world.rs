//! The simulated world of one run: chains, stored commits, settlers, and the clock, all in one thread.

pub mod auction;
pub mod batch;
mod bids;
mod chain_handle;
pub mod client;
pub mod gateway;
pub mod invariants;
pub mod operator;
pub mod parking;
pub mod ports;
pub mod projection;
pub mod reports;
pub mod rpc_faults;
pub mod selector;
pub mod settlers;
pub mod sim_journal;
pub mod stranger;
pub mod thief;
pub mod verifiers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy::{primitives::Address, signers::local::PrivateKeySigner};
use chrono::TimeDelta;
use tokio::{sync::Notify, time::Instant};

use events::{
    ChainId, Hash32, PaymentId, StreamId,
    event::VerifierRef,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use journal::{
    Recorded, budget::memory::MemoryBudgets, ledger::memory::MemoryLedger, memory::MemoryJournal,
    parking::memory::MemoryParking,
};

pub use self::chain_handle::{ChainHandle, SetupError, signer};
use self::{
    auction::AuctionState,
    chain_handle::{chain_handle, templates},
    invariants::{Invariants, Violation},
    reports::Reports,
    selector::Choices,
    settlers::Settler,
    sim_journal::{SHARDS, Shards},
    verifiers::Verifiers,
};
use crate::{coverage, plan::Plan, random::RandomSource, trace::Trace};

/// The UNIX second at which every run begins.
pub const BEGIN: u64 = 1_800_000_000;
/// How long a call to a node may take.
pub const RPC_TIMEOUT: Duration = Duration::from_secs(2);
/// Least seconds between the end of the delivery and the refund.
pub const REFUND_DELAY: u64 = 120;
/// Units of each token that payers and settlers have.
pub const TOKENS: u64 = 1_000_000_000;

/// The accounts of all parties, the same on every chain.
pub struct Parties {
    /// Accounts of payers.
    pub payers: BTreeSet<Address>,
    /// Accounts that may deliver: settlers and the third party.
    pub deliverers: BTreeSet<Address>,
    /// Accounts of recipients.
    pub recipients: BTreeSet<Address>,
    /// Accounts that the gateway sends from.
    pub submitters: BTreeSet<Address>,
}

impl Parties {
    fn of(plan: &Plan, settlers: &[Settler]) -> Self {
        let payments = 0..plan.payments.len();
        let mut deliverers: BTreeSet<_> = settlers.iter().map(|settler| settler.signer.address()).collect();
        deliverers.insert(signer("stranger").address());
        Self {
            payers: payments.clone().map(|number| client::payer(&plan.payments, number).address()).collect(),
            deliverers,
            recipients: payments.map(|number| signer(&format!("recipient {number}")).address()).collect(),
            submitters: (0..plan.submitters).map(|number| signer(&format!("submitter {number}")).address()).collect(),
        }
    }
}

/// The world.
pub struct World {
    /// The seed.
    pub seed: u64,
    /// The plan.
    pub plan: Plan,
    /// The chains.
    pub chains: Vec<ChainHandle>,
    /// The stored commits.
    pub memory: MemoryJournal,
    /// The shard leases.
    pub shards: Shards,
    /// The nonces that were reserved.
    pub ledger: MemoryLedger,
    /// Gas budgets of contract accounts.
    pub budgets: MemoryBudgets,
    /// The parked streams.
    pub parking: MemoryParking,
    /// Auction state.
    pub auctions: AuctionState,
    /// Accounts of all parties.
    pub parties: Parties,
    /// The invariants.
    pub invariants: Mutex<Invariants>,
    /// Notified when a payment changed or an invariant was violated.
    pub changed: Notify,
    /// The choices of selectors.
    pub choices: Choices,
    /// The reports of settlers.
    pub reports: Reports,
    settlers: Vec<Settler>,
    poisons: Mutex<BTreeMap<StreamId, Duration>>,
    third_party: PrivateKeySigner,
    /// What payers name as the verifiers of their payments.
    pub verifier: VerifierRef,
    verifiers: OnceLock<Verifiers>,
    started: Instant,
    calm: AtomicBool,
    trace: Mutex<Trace>,
    violation: Mutex<Option<Violation>>,
}

impl World {
    /// The world of `plan`. Must be called inside the run's runtime, whose time it reads.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(seed: u64, plan: Plan, print: bool) -> Result<Arc<Self>, SetupError> {
        let started = Instant::now();
        let clock = move || at(started.elapsed());
        let settlers: Vec<_> = plan
            .settlers
            .iter()
            .enumerate()
            .map(|(index, plan)| Settler::new(index, signer(&format!("settler {index}")), *plan))
            .collect();
        let verifier = verifiers::named(&plan.verifiers)?;
        coverage::party(plan.verifiers.name());
        let mut chains = Vec::new();
        for (index, template) in templates()?.iter().enumerate() {
            chains.push(chain_handle(template, &plan, index, &settlers, &verifier.account)?);
        }
        let parties = Parties::of(&plan, &settlers);
        let submitters = parties.submitters.clone();
        let world = Arc::new(Self {
            seed,
            chains,
            memory: MemoryJournal::with_clock(SHARDS, clock),
            shards: Shards::default(),
            ledger: MemoryLedger::default(),
            budgets: MemoryBudgets::default(),
            parking: MemoryParking::with_clock(clock),
            auctions: AuctionState::default(),
            parties,
            invariants: Mutex::new(Invariants::new(submitters)),
            changed: Notify::new(),
            choices: Choices::default(),
            reports: Reports::default(),
            settlers,
            poisons: Mutex::default(),
            third_party: signer("stranger"),
            verifier,
            verifiers: OnceLock::new(),
            started,
            calm: AtomicBool::new(false),
            trace: Mutex::new(Trace::new(print)),
            violation: Mutex::new(None),
            plan,
        });
        let verifiers = Verifiers::new(&world)?;
        world.verifiers.get_or_init(|| verifiers);
        Ok(world)
    }

    /// The random source under `label`.
    pub fn random(&self, label: &str) -> RandomSource {
        RandomSource::new(self.seed, label)
    }

    /// The world's time.
    pub fn now(&self) -> Timestamp {
        at(self.started.elapsed())
    }

    /// The world's time in UNIX seconds.
    pub fn seconds(&self) -> u64 {
        unix_seconds(self.now())
    }

    /// How long the run has lasted.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether no verifier answers anybody now.
    pub fn verifiers_are_away(&self) -> bool {
        let now = self.elapsed();
        let away = self.plan.verifier_outage.is_some_and(|away| now >= away.after && now < away.after + away.lasts);
        away && !self.faults_ended()
    }

    /// Draws whether a fault of this rate strikes now, and counts it under `name`.
    pub fn strikes(&self, random: &RandomSource, name: &'static str, per_mille: u32) -> bool {
        let strikes = self.draws(random, per_mille);
        if strikes {
            coverage::fault(name);
        }
        strikes
    }

    /// Draws whether a fault of this rate strikes now; the caller counts it.
    pub fn draws(&self, random: &RandomSource, per_mille: u32) -> bool {
        !self.faults_ended() && random.chance(per_mille)
    }

    /// Makes the stream unreadable in the journal for a time.
    pub fn poison(&self, stream_id: &StreamId, lasts: Duration) {
        let until = self.elapsed() + lasts;
        self.poisons.lock().unwrap_or_else(PoisonError::into_inner).insert(stream_id.clone(), until);
    }

    /// Whether the stream is unreadable now.
    pub fn is_poisoned(&self, stream_id: &StreamId) -> bool {
        let poisons = self.poisons.lock().unwrap_or_else(PoisonError::into_inner);
        !self.faults_ended() && poisons.get(stream_id).is_some_and(|until| self.elapsed() < *until)
    }

    /// Whether the stream ever was unreadable.
    pub fn was_poisoned(&self, stream_id: &StreamId) -> bool {
        self.poisons.lock().unwrap_or_else(PoisonError::into_inner).contains_key(stream_id)
    }

    /// Whether all faults are over.
    pub fn faults_ended(&self) -> bool {
        self.calm.load(Ordering::SeqCst)
    }

    /// A client was told that its payment is accepted.
    pub fn accepted(&self, payment_id: &PaymentId) {
        coverage::party("payment accepted");
        self.note(format!("accepted {payment_id}"));
        self.invariants().accepted(payment_id);
    }

    /// Ends all faults.
    pub fn end_faults(&self) {
        self.note("calm".to_owned());
        self.calm.store(true, Ordering::SeqCst);
    }

    /// The chain with this id.
    pub fn chain(&self, chain_id: &ChainId) -> Option<&ChainHandle> {
        self.chains.iter().find(|handle| handle.chain_id == *chain_id)
    }

    /// The settlers.
    pub fn settlers(&self) -> &[Settler] {
        &self.settlers
    }

    /// The key of a third party, which takes part in no payment.
    pub fn third_party(&self) -> &PrivateKeySigner {
        &self.third_party
    }

    /// The fulfillment verifiers, made with the world.
    pub fn verifiers(&self) -> &Verifiers {
        self.verifiers.get_or_init(Verifiers::default)
    }

    /// Whether as many verifiers as have to sign do so now, at once and of what is so.
    pub fn are_verifiers_enough(&self) -> bool {
        self.verifiers().willing(self) >= usize::from(self.plan.verifiers.threshold)
    }

    /// Adds a line to the trace.
    pub fn note(&self, line: String) {
        let at = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.trace().note(at, &line);
    }

    fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Digest, length and last lines of the trace.
    pub fn traced(&self) -> (Hash32, u64, Vec<String>) {
        let trace = self.trace();
        (trace.digest(), trace.count(), trace.tail())
    }

    /// The invariants.
    pub fn invariants(&self) -> MutexGuard<'_, Invariants> {
        self.invariants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit is stored: the invariants are checked.
    pub fn committed(&self, recorded: &Recorded) {
        let types: Vec<_> = recorded.events.iter().map(events::Event::type_name).collect();
        // The ids of commits are random; nothing but the hash chain rests on them, so they stay out of the trace.
        let content = serde_json::to_vec(&recorded.events).unwrap_or_default();
        self.note(format!(
            "commit {} {} {} {}",
            recorded.stream_id,
            recorded.position.version,
            types.join(","),
            Hash32::sha256(content)
        ));
        let held = self.invariants().committed(self, recorded);
        self.judge(held);
        self.changed.notify_one();
    }

    /// Keeps the first violation.
    pub fn judge(&self, held: Result<(), Violation>) {
        if let Err(violation) = held {
            self.note(format!("VIOLATION {violation}"));
            self.violation.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(violation);
            self.changed.notify_one();
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<Violation> {
        self.violation.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn at(elapsed: Duration) -> Timestamp {
    let begin = from_unix_seconds(BEGIN).unwrap_or_default();
    begin + TimeDelta::from_std(elapsed).unwrap_or_default()
}
