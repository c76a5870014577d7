//! Wallet of one process alone: its transactions are sent, watched and sent again until they landed or never can.
//!
//! Nothing is stored. A transaction lands once at most, and never above the block height that its blockhash counts up to;
//! only when that height is finalized is another made for the same purpose. After a restart whether an effect is on chain
//! already is for the caller to read there first; the program takes each effect once only.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio::{sync::Mutex, time::Instant};

use chains::perform::PerformError;
use events::{Account, failure::BlockchainContext};
use gateway_program::{Key, host::Instruction};
use sagas::ports::Transient;
use signer::Ed25519Key;

use super::{
    broadcaster::Broadcaster,
    history::{History, Status},
    node::{Node, Settled},
    program, refusal,
    transaction::{self, Budget, Signed},
};

/// How long what became of a purpose is remembered, for the next attempt to offer more.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// How long a [`Wallet`] waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Longest that one call waits for its transaction to land.
    pub wait_max: Duration,
    /// A transaction that nobody has seen for so long is sent again: nodes forget.
    pub resend_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { wait_max: Duration::from_secs(60), resend_after: Duration::from_secs(2) }
    }
}

/// A transaction that was sent.
#[derive(Debug, Clone)]
struct Flight {
    attempt: u32,
    hash: String,
    wire: Vec<u8>,
    programs: Vec<Key>,
    last_valid_height: u64,
    launched_at: Instant,
    sent_at: Instant,
    /// It did not land and never will.
    is_lost: bool,
}

/// The account.
#[derive(Debug)]
pub struct Wallet {
    node: Node,
    key: Ed25519Key,
    account: Account,
    patience: Patience,
    flights: Mutex<BTreeMap<String, Flight>>,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// What it is for: a transaction on its way for it is waited for instead of another being sent.
    pub purpose: String,
    /// The gateway's program.
    pub program: Key,
    /// The instructions, without those of the budget.
    pub instructions: Vec<Instruction>,
    /// Accounts that others write to, too; what that costs is asked for.
    pub contended: Vec<Key>,
}

/// What the simulation of a task showed.
pub(super) struct Simulation {
    /// Compute units it took.
    units: u64,
    /// Programs it calls.
    programs: Vec<Key>,
}

impl Wallet {
    /// The account of `key` on the cluster of `node`. No other process may send from it.
    pub fn new(node: Node, key: impl Into<Ed25519Key>) -> Self {
        let key = key.into();
        let account = program::holder(&key.public());
        Self { node, key, account, patience: Patience::default(), flights: Mutex::default() }
    }

    /// The same account with another patience.
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The account's bytes.
    pub fn address(&self) -> Key {
        self.key.public()
    }

    /// The cluster.
    pub fn node(&self) -> &Node {
        &self.node
    }

    fn broadcaster(&self) -> Broadcaster<'_> {
        Broadcaster::of(&self.node)
    }

    /// Does `task` and waits until its transaction landed; returns its hash. It can still be taken back by a fork.
    ///
    /// # Errors
    /// [`PerformError::Transient`] also when it did not land within a bounded time, or never will: look at the chain, and ask
    /// again.
    pub(super) async fn execute(&self, task: &Task) -> Result<String, PerformError> {
        let underway = self.flights.lock().await.get(&task.purpose).is_some_and(|flight| !flight.is_lost);
        if !underway {
            self.launch(task).await?;
        }
        let started = Instant::now();
        while started.elapsed() < self.patience.wait_max {
            match self.poll(task).await {
                Ok(Some(hash)) => return Ok(hash),
                Ok(None) => {}
                Err(Lost::Ended(error)) => return Err(error),
                Err(Lost::Fault(fault)) => {
                    tracing::debug!(%fault, purpose = task.purpose, "transaction not polled");
                }
            }
            // However long no slot comes, what is on its way is polled.
            let _ = tokio::time::timeout(self.patience.resend_after, self.node.next_block()).await;
        }
        let waited = self.patience.wait_max.as_secs();
        Err(Transient::unreachable(format!("{}: in no block within {waited} s", task.purpose)).into())
    }

    /// What `task` would do, by a simulation at the node; nothing is sent.
    ///
    /// # Errors
    /// [`PerformError::Refused`] when a program refuses.
    pub(super) async fn simulate(&self, task: &Task) -> Result<Simulation, PerformError> {
        let trial = transaction::message(&task.instructions, Budget::TRIAL, &self.address(), &[0; 32]);
        let programs = transaction::programs(&trial);
        let wire = transaction::trial(&trial).map_err(Transient::from)?;
        let simulated = self.broadcaster().simulate(&wire).await?;
        if let Some(error) = &simulated.error {
            let reason = program::reason(error, &programs);
            return Err(match error.get("InstructionError") {
                Some(_) => PerformError::Refused(Box::new(refusal::context(&self.node, &task.program, reason))),
                // The node's trouble, or that of an account without lamports.
                None => Transient::contradiction(format!("{}: cannot be simulated: {reason}", task.purpose)).into(),
            });
        }
        Ok(Simulation { units: simulated.units, programs })
    }

    async fn launch(&self, task: &Task) -> Result<(), PerformError> {
        let payer = self.address();
        let Simulation { units, programs } = self.simulate(task).await?;
        let recent = self.broadcaster().recent_fees(&task.contended).await?;
        let settled = self.node.settled().await?;
        let blockhash = self.broadcaster().blockhash(settled).await?;
        let mut flights = self.flights.lock().await;
        flights.retain(|_, flight| flight.launched_at.elapsed() < REMEMBERED);
        let before = flights.get(&task.purpose);
        if before.is_some_and(|before| !before.is_lost) {
            return Ok(());
        }
        let attempt = before.map_or(0, |before| before.attempt).saturating_add(1);
        let budget = Budget::new(units, &recent, attempt);
        let message = transaction::message(&task.instructions, budget, &payer, &blockhash.hash);
        let signed = transaction::sign_by(&message, &[&self.key]).await.map_err(Transient::from)?;
        let Signed { hash, wire } = signed;
        let now = Instant::now();
        let flight = Flight {
            attempt,
            hash,
            wire: wire.clone(),
            programs,
            last_valid_height: blockhash.last_valid_height,
            launched_at: now,
            sent_at: now,
            is_lost: false,
        };
        flights.insert(task.purpose.clone(), flight);
        drop(flights);
        // Silence is not refusal: the transaction may be on its way, so it is watched, and sent again.
        if let Err(fault) = self.broadcaster().send(&wire).await {
            tracing::debug!(%fault, purpose = task.purpose, "transaction was not taken");
        }
        Ok(())
    }

    /// Looks for the transaction; keeps it alive while nobody has seen it.
    async fn poll(&self, task: &Task) -> Result<Option<String>, Lost> {
        let flight = self.flights.lock().await.get(&task.purpose).filter(|flight| !flight.is_lost).cloned();
        let Some(flight) = flight else {
            return Err(Transient::contradiction(format!("{}: finished by another call", task.purpose)).into_end());
        };
        // Asked for first: a node that has this slot has seen whatever landed up to it.
        let settled = self.node.settled().await?;
        match History::of(&self.node).status(&flight.hash, settled.slot).await? {
            Some(Status { error: None, .. }) => Ok(Some(flight.hash)),
            Some(Status { error: Some(error), slot }) => {
                if slot <= settled.slot {
                    self.lose(&task.purpose, &flight.hash).await;
                }
                Err(Lost::Ended(self.failed(task, &flight, &error, slot)))
            }
            None if settled.height > flight.last_valid_height => {
                self.lose(&task.purpose, &flight.hash).await;
                Err(Transient::unreachable(self.never_landed(task, &flight, settled)).into_end())
            }
            None => {
                self.keep_alive(task, &flight).await?;
                Ok(None)
            }
        }
    }

    async fn keep_alive(&self, task: &Task, flight: &Flight) -> Result<(), Transient> {
        if flight.sent_at.elapsed() < self.patience.resend_after {
            return Ok(());
        }
        if let Some(kept) = self.flights.lock().await.get_mut(&task.purpose) {
            kept.sent_at = Instant::now();
        }
        self.broadcaster().send(&flight.wire).await
    }

    async fn lose(&self, purpose: &str, hash: &str) {
        if let Some(flight) = self.flights.lock().await.get_mut(purpose).filter(|flight| flight.hash == hash) {
            flight.is_lost = true;
        }
    }

    fn never_landed(&self, task: &Task, flight: &Flight, settled: Settled) -> String {
        let (height, until) = (settled.height, flight.last_valid_height);
        format!("{}: {} did not land up to height {until}, and {height} is finalized", task.purpose, flight.hash)
    }

    fn failed(&self, task: &Task, flight: &Flight, error: &Value, slot: u64) -> PerformError {
        let reason = program::reason(error, &flight.programs);
        let mut context: BlockchainContext = refusal::context(&self.node, &task.program, reason);
        context.transaction_hash = Some(flight.hash.clone());
        context.block_number = Some(slot);
        PerformError::Refused(Box::new(context))
    }
}

/// Why a poll of a transaction does not say that it landed.
enum Lost {
    /// The node gave no answer; poll again.
    Fault(Transient),
    /// There is nothing to wait for any more.
    Ended(PerformError),
}

impl From<Transient> for Lost {
    fn from(fault: Transient) -> Self {
        Self::Fault(fault)
    }
}

/// A fault that ends the wait.
trait IntoEnd {
    fn into_end(self) -> Lost;
}

impl IntoEnd for Transient {
    fn into_end(self) -> Lost {
        Lost::Ended(self.into())
    }
}
