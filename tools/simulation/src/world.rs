//! The simulated world of one run: chains, stored commits, settlers, and the clock, all in one thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use alloy::{
    consensus::{SignableTransaction, TxEip1559, TxEnvelope},
    eips::eip2718::Encodable2718,
    primitives::{Address, Bytes, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
};
use chrono::TimeDelta;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use chains::{
    config::{Depth, EvmConfig},
    verifier::Verifier,
};
use chains_evm::node::Node;
use escrow_abi::contracts::text;
use events::{
    AssetId, ChainId, Hash32, PaymentId, StreamId,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use journal::{
    Recorded, budget::memory::MemoryBudgets, ledger::memory::MemoryLedger, memory::MemoryJournal,
    parking::memory::MemoryParking,
};

use crate::{
    auction::AuctionState,
    chain::{Contracts, Genesis, NodeKind, RpcOutcome, SharedChain, SimChain, SimTransport, Template},
    coverage,
    invariants::{Invariants, Violation},
    plan::Plan,
    random::RandomSource,
    reports::Reports,
    rpc_faults::rpc_faults,
    selector::Choices,
    settlers::Settler,
    sim_journal::{SHARDS, Shards},
    trace::Trace,
};

/// The UNIX second at which every run begins.
pub const BEGIN: u64 = 1_800_000_000;
/// How long a call to a node may take.
pub const RPC_TIMEOUT: Duration = Duration::from_secs(2);
/// Least seconds between the end of the delivery and the refund.
pub const REFUND_DELAY: u64 = 120;
/// Coins of every account that sends transactions, in wei.
const COINS: u128 = 1_000_000_000_000_000_000_000;
/// Gas limit of every transaction that is not the gateway's.
const GAS: u64 = 500_000;
/// Tip of every transaction that is not the gateway's, wei per unit of gas.
const TIP: u128 = 2_000_000_000;
/// Units of each token that payers and settlers have.
pub const TOKENS: u64 = 1_000_000_000;

/// Why a world cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The artefact of Permit2 is missing.
    #[error("{path} cannot be read ({error}): run `scripts/tools.sh run`")]
    Permit2 {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// A chain refuses to begin as planned.
    #[error(transparent)]
    Chain(#[from] crate::chain::SimError),
    /// A chain cannot be connected to.
    #[error("{0}")]
    Connect(String),
}

/// The key of the party with this name.
pub fn signer(name: &str) -> PrivateKeySigner {
    let mut key = keccak256(format!("simulation: {name}"));
    // A hash that is not a valid key is as unlikely as a collision; the next one is valid.
    loop {
        match PrivateKeySigner::from_bytes(&key) {
            Ok(signer) => return signer,
            Err(_) => key = keccak256(key),
        }
    }
}

fn templates() -> Result<&'static [Template; 2], SetupError> {
    static TEMPLATES: OnceLock<[Template; 2]> = OnceLock::new();
    if let Some(templates) = TEMPLATES.get() {
        return Ok(templates);
    }
    let home = std::env::var_os("GW_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    let path = home.join(".tools/permit2/Permit2.json");
    let permit2 = std::fs::read(&path).map_err(|error| SetupError::Permit2 { path, error })?;
    let make = |evm_id| {
        let tokens = vec![("Simulated Dollar".to_owned(), "SUSD".to_owned(), 6)];
        let (reserver, releaser) = (signer("reserver").address(), signer("releaser").address());
        Template::new(&Genesis { evm_id, reserver, releaser, tokens }, &permit2)
    };
    let made = [make(1)?, make(10)?];
    Ok(TEMPLATES.get_or_init(|| made))
}

/// A handle to one chain: its ids, contracts and configuration, and an honest connection.
#[derive(Clone)]
pub struct ChainHandle {
    /// Its CAIP-2 id.
    pub chain_id: ChainId,
    /// Its EIP-155 id.
    pub evm_id: u64,
    /// The contracts on it.
    pub contracts: Contracts,
    /// How the gateway, the verifier and the settlers are configured for it.
    pub config: EvmConfig,
    /// The token that is paid with.
    pub token: AssetId,
    /// Its own coin.
    pub coin: AssetId,
    /// Notified at each new block.
    pub blocks: Arc<Notify>,
    /// An honest connection, for the world's own use.
    pub node: Node,
    chain: SharedChain,
}

impl ChainHandle {
    /// The chain.
    pub fn lock(&self) -> MutexGuard<'_, SimChain> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a transaction of `signer`, priced for the next blocks.
    ///
    /// # Errors
    /// The message of the node that refuses it.
    pub fn send(&self, signer: &PrivateKeySigner, to: Address, value: U256, data: Bytes) -> Result<(), String> {
        let mut chain = self.lock();
        let mut ask = |method: &str, params: Value| {
            chain.rpc(&NodeKind::Honest, method, &params).map_err(|fault| fault.to_string())
        };
        let number = |value: Value| {
            let digits = value.as_str().unwrap_or_default().trim_start_matches("0x").to_owned();
            u64::from_str_radix(&digits, 16).map_err(|error| error.to_string())
        };
        let nonce = number(ask("eth_getTransactionCount", json!([signer.address(), "pending"]))?)?;
        let head = ask("eth_getBlockByNumber", json!(["latest", false]))?;
        let base = number(head.get("baseFeePerGas").cloned().unwrap_or_default())?;
        let transaction = TxEip1559 {
            chain_id: self.evm_id,
            nonce,
            gas_limit: GAS,
            max_fee_per_gas: u128::from(base) * 2 + TIP,
            max_priority_fee_per_gas: TIP,
            to: to.into(),
            value,
            input: data,
            ..TxEip1559::default()
        };
        let signature = signer.sign_hash_sync(&transaction.signature_hash()).map_err(|error| error.to_string())?;
        let raw: Bytes = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718().into();
        ask("eth_sendRawTransaction", json!([raw])).map(|_| ())
    }

    /// A connection whose calls end as `faults` says.
    pub fn connect(&self, faults: impl FnMut(&str) -> RpcOutcome + Send + 'static) -> Result<Node, SetupError> {
        let transport = SimTransport::new(self.chain.clone(), RPC_TIMEOUT, faults);
        transport.connect(&self.config).map_err(|error| SetupError::Connect(error.to_string()))
    }
}

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
    /// The account that attests.
    pub releaser: Address,
}

impl Parties {
    fn of(plan: &Plan, settlers: &[Settler]) -> Self {
        let payments = 0..plan.payments.len();
        let mut deliverers: BTreeSet<_> = settlers.iter().map(|settler| settler.signer.address()).collect();
        deliverers.insert(signer("stranger").address());
        Self {
            payers: payments.clone().map(|number| crate::client::payer(&plan.payments, number).address()).collect(),
            deliverers,
            recipients: payments.map(|number| signer(&format!("recipient {number}")).address()).collect(),
            submitters: (0..plan.submitters).map(|number| signer(&format!("submitter {number}")).address()).collect(),
            releaser: signer("releaser").address(),
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
    verifier: OnceLock<Arc<Verifier>>,
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
        let mut chains = Vec::new();
        for (index, template) in templates()?.iter().enumerate() {
            chains.push(chain_handle(template, &plan, index, &settlers)?);
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
            verifier: OnceLock::new(),
            started,
            calm: AtomicBool::new(false),
            trace: Mutex::new(Trace::new(print)),
            violation: Mutex::new(None),
            plan,
        });
        let random = world.random("verifier");
        // Weak, for the world holds the verifier.
        let weak = Arc::downgrade(&world);
        let mut nodes = Vec::new();
        for handle in &world.chains {
            nodes.push(handle.connect(rpc_faults(weak.clone(), None, random.clone()))?);
        }
        let verifier = Verifier::default().with_chains(nodes, Some(signer("releaser")));
        world.verifier.get_or_init(|| Arc::new(verifier));
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

    /// Whether the verifier answers nobody now.
    pub fn verifier_is_away(&self) -> bool {
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

    /// The fulfillment verifier.
    pub fn verifier(&self) -> Arc<Verifier> {
        // Made with the world; a world without one would have no chains either.
        let alone = || Arc::new(Verifier::default());
        self.verifier.get_or_init(alone).clone()
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

fn chain_handle(
    template: &Template,
    plan: &Plan,
    index: usize,
    settlers: &[Settler],
) -> Result<ChainHandle, SetupError> {
    let mut chain = template.start(BEGIN - 1);
    let chain_plan = plan.chains[index];
    chain.set_lags(chain_plan.depth.min(2), chain_plan.depth);
    let contracts = chain.contracts().clone();
    let token = contracts.tokens[0];
    let coins = U256::from(COINS);
    for submitter in 0..plan.submitters {
        chain.fund(signer(&format!("submitter {submitter}")).address(), coins)?;
    }
    for settler in settlers {
        let account = settler.signer.address();
        chain.fund(account, coins)?;
        chain.mint(token, account, U256::from(TOKENS))?;
        chain.approve(account, token, contracts.proxy, U256::MAX)?;
    }
    let third_party = signer("stranger").address();
    chain.fund(third_party, coins)?;
    chain.mint(token, third_party, U256::from(TOKENS))?;
    chain.approve(third_party, token, contracts.proxy, U256::MAX)?;
    for (number, payment) in plan.payments.iter().enumerate() {
        let payer = crate::client::payer(&plan.payments, number).address();
        if chain.coins(payer).is_zero() {
            chain.fund(payer, coins)?;
            chain.mint(token, payer, U256::from(TOKENS))?;
        }
        if payment.funding != crate::plan::Funding::NoAllowance {
            chain.approve(payer, token, contracts.permit2, U256::MAX)?;
        }
    }
    let depth = match chain_plan.by_tag {
        true => Depth::Finalized,
        false => Depth::Confirmations(chain_plan.depth),
    };
    let mut config = chain.config(depth, REFUND_DELAY);
    config.admission_seconds = 60;
    config.reprice_seconds = 10;
    let (evm_id, chain_id) = (chain.evm_id(), config.common.chain_id.clone());
    let asset = |text: String| text.parse::<AssetId>().map_err(|error| SetupError::Connect(error.to_string()));
    let token = asset(format!("{chain_id}/erc20:{}", text(token)))?;
    let coin = asset(format!("{chain_id}/slip44:60"))?;
    let shared = chain.shared();
    let honest = SimTransport::new(shared.clone(), RPC_TIMEOUT, |_: &str| RpcOutcome::Deliver(NodeKind::Honest));
    let node = honest.connect(&config).map_err(|error| SetupError::Connect(error.to_string()))?;
    let blocks = Arc::new(Notify::new());
    Ok(ChainHandle { chain_id, evm_id, contracts, config, token, coin, blocks, node, chain: shared })
}
