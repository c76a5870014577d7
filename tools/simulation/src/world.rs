//! The simulated world of one run: chains, stored commits, settlers, and the clock, all in one thread.

pub mod auction;
pub mod batch;
mod bids;
pub mod client;
pub mod clocks;
pub mod epochs;
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

use chrono::TimeDelta;
use tokio::{sync::Notify, time::Instant};

use events::{
    ChainId, Family, Hash32, PaymentId, StreamId,
    event::VerifierRef,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use journal::{
    Recorded, budget::memory::MemoryBudgets, ledger::memory::MemoryLedger, memory::MemoryJournal,
    parking::memory::MemoryParking,
};

use self::{
    auction::AuctionState,
    epochs::EpochHistory,
    invariants::{Invariants, Violation},
    reports::Reports,
    selector::Choices,
    settlers::Settler,
    sim_journal::{SHARDS, Shards},
    verifiers::Verifiers,
};
pub use crate::family::{BEGIN, ChainHandle, REFUND_DELAY, SetupError, TOKENS};
use crate::{
    coverage, evm,
    family::{Allows, Beginning, FamilyChain, FaultSource, Party},
    plan::{Faults, Funding, Plan},
    random::RandomSource,
    solana,
    trace::Trace,
    tron,
};

/// The name of a third party, which takes part in no payment.
pub const THIRD_PARTY: &str = "stranger";
/// The name of the party that the operator sends coins from.
pub const TREASURY: &str = "treasury";

/// Payments of a run that are not many.
const FEW_PAYMENTS: usize = 3;

/// The names of all parties, the same on every chain.
pub struct Parties {
    /// Payers, each once.
    pub payers: Vec<String>,
    /// Those that may deliver: settlers and the third party.
    pub deliverers: Vec<String>,
    /// Recipients.
    pub recipients: Vec<String>,
    /// Those that the gateway sends from.
    pub submitters: Vec<String>,
    /// The one that takes the place of the submitter whose key is stolen.
    pub successor: Option<String>,
    /// Who has what when the run begins.
    begins_with: Vec<Party>,
}

impl Parties {
    fn of(plan: &Plan, settlers: &[Settler]) -> Self {
        let payments = 0..plan.payments.len();
        let payers: BTreeMap<String, bool> = payments.clone().fold(BTreeMap::new(), |mut payers, number| {
            // One who makes several payments has given its allowance if any of them needs it.
            let allows = plan.payments[number].funding != Funding::NoAllowance;
            *payers.entry(client::payer(&plan.payments, number)).or_default() |= allows;
            payers
        });
        let mut deliverers: Vec<_> = settlers.iter().map(|settler| settler.name.clone()).collect();
        deliverers.push(THIRD_PARTY.to_owned());
        let submitters: Vec<_> = (0..plan.submitters).map(|number| format!("submitter {number}")).collect();
        let successor = plan.theft.map(|_| format!("submitter {}", plan.submitters));
        let operator = plan.theft.map(|_| TREASURY.to_owned());
        let party = |name: &str, tokens, allows| Party { name: name.to_owned(), has_coins: true, tokens, allows };
        let of_submitters = submitters.iter().chain(&successor).chain(&operator);
        let of_submitters = of_submitters.map(|name| party(name, 0, Allows::Nobody));
        let of_deliverers = deliverers.iter().map(|name| party(name, TOKENS, Allows::Deliveries));
        let of_payers = payers
            .iter()
            .map(|(name, allows)| party(name, TOKENS, if *allows { Allows::Deposits } else { Allows::Nobody }));
        Self {
            begins_with: of_submitters.chain(of_deliverers).chain(of_payers).collect(),
            payers: payers.into_keys().collect(),
            deliverers,
            recipients: payments.map(client::recipient).collect(),
            submitters,
            successor,
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
    /// The epochs of the journal, as they came about.
    pub epochs: EpochHistory,
    /// What was sent with stolen keys of submitters.
    pub stolen: Mutex<BTreeSet<String>>,
    settlers: Vec<Settler>,
    poisons: Mutex<BTreeMap<StreamId, Duration>>,
    /// What payers name as the verifiers of their payments, by the family of the source.
    named: BTreeMap<Family, VerifierRef>,
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
        let settlers: Vec<_> =
            plan.settlers.iter().enumerate().map(|(index, planned)| Settler::new(index, *planned, &plan)).collect();
        coverage::party(plan.verifiers.name());
        if plan.payments.len() > FEW_PAYMENTS {
            coverage::party("many payments at once");
        }
        let parties = Parties::of(&plan, &settlers);
        let (mut chains, mut named) = (Vec::new(), BTreeMap::new());
        for (at, chain) in plan.chains.iter().enumerate() {
            let family = chain.family;
            let verifier = verifiers::named(&plan.verifiers, family)?;
            let beginning = Beginning {
                index: plan.chains[..at].iter().filter(|other| other.family == family).count(),
                time: BEGIN - 1,
                plan: *chain,
                releaser: verifier.account.clone(),
                parties: &parties.begins_with,
            };
            chains.push(ChainHandle::new(begin(family, &beginning)?)?);
            named.insert(family, verifier);
        }
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
            invariants: Mutex::default(),
            changed: Notify::new(),
            choices: Choices::default(),
            reports: Reports::default(),
            epochs: EpochHistory::default(),
            stolen: Mutex::default(),
            settlers,
            poisons: Mutex::default(),
            named,
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
        FaultSource::strikes(self, random, name, per_mille)
    }

    /// Draws whether a fault of this rate strikes now; the caller counts it.
    pub fn draws(&self, random: &RandomSource, per_mille: u32) -> bool {
        FaultSource::draws(self, random, per_mille)
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

    /// What payers name as the verifiers of payments whose source is on a chain of `family`.
    pub fn verifier(&self, family: Family) -> Option<&VerifierRef> {
        self.named.get(&family)
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

impl FaultSource for World {
    fn faults(&self) -> &Faults {
        &self.plan.faults
    }

    fn faults_ended(&self) -> bool {
        Self::faults_ended(self)
    }

    fn strikes(&self, random: &RandomSource, name: &'static str, per_mille: u32) -> bool {
        let strikes = FaultSource::draws(self, random, per_mille);
        if strikes {
            coverage::fault(name);
        }
        strikes
    }

    fn draws(&self, random: &RandomSource, per_mille: u32) -> bool {
        !Self::faults_ended(self) && random.chance(per_mille)
    }

    fn note(&self, line: String) {
        Self::note(self, line);
    }
}

/// A chain of `family`.
fn begin(family: Family, beginning: &Beginning<'_>) -> Result<Arc<dyn FamilyChain>, SetupError> {
    match family {
        Family::Evm => evm::begin(beginning),
        Family::Tron => tron::begin(beginning),
        Family::Solana => solana::begin(beginning),
    }
}

fn at(elapsed: Duration) -> Timestamp {
    let begin = from_unix_seconds(BEGIN).unwrap_or_default();
    begin + TimeDelta::from_std(elapsed).unwrap_or_default()
}
