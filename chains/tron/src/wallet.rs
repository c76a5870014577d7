//! Wallet of one process alone: its transactions are sent, watched and sent again until they landed or never can.
//!
//! Nothing is stored. A transaction lands once at most, and in no block whose parent's time has reached its expiration; only
//! when a solidified block's time has is another made for the same purpose. After a restart whether an effect is on chain
//! already is for the caller to read there first; the contracts take each effect once only.

use std::{collections::BTreeMap, time::Duration};

use alloy::primitives::{Address, B256};
use tokio::{sync::Mutex, time::Instant};

use chains::perform::PerformError;
use events::Account;
use sagas::ports::Transient;
use signer::Secp256k1Key;

use super::{
    address::account_of,
    cost::{Cost, PAYOUT_ENERGY, with_margin, with_reserve},
    node::{AccountResources, Answer, BLOCK_MS, Block, Info, Node, Prices},
    transaction::{Call, Draft, Reference, Signed},
    transaction_status::Sight,
};

/// How long a transaction may wait for its block. Short: until it has passed at a solidified block, nothing else can be sent.
const LIFETIME_MS: u64 = 60_000;
/// How long what became of a purpose is remembered.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// How long a [`Wallet`] waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Longest that one call waits for its transaction to land.
    pub wait_max: Duration,
    /// A transaction that is in no block is sent again after so long: nodes forget.
    pub resend_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { wait_max: Duration::from_secs(60), resend_after: Duration::from_secs(6) }
    }
}

/// Energy that a call needs beyond what it took when it was tried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Spare {
    /// What must be left over while it runs.
    pub left: u64,
    /// The least that its `fee_limit` pays for. What is not used is not paid.
    pub limit: u64,
}

impl Spare {
    /// For what pays out of an escrow, which refuses to begin with less than 384,761 left (`PAYOUT_GAS_NEEDED`).
    pub const PAYOUT: Self = Self { left: 400_000, limit: PAYOUT_ENERGY };
}

/// What is to be done.
#[derive(Debug, Clone)]
pub(super) struct Task {
    /// What it is for: a transaction on its way for it is waited for instead of another being sent.
    pub purpose: String,
    /// The contract that is called.
    pub contract: Address,
    /// Selector and arguments.
    pub data: Vec<u8>,
    /// TRX that go along, in sun.
    pub value_sun: u64,
    /// Energy beyond what is seen when it is tried out.
    pub spare: Spare,
    /// The last second (UNIX) of a block in which it may land; the contract itself refuses later ones.
    pub until: Option<u64>,
    /// Whether it is done again although it landed before: its effect can be undone.
    pub again: bool,
}

/// A transaction that was sent.
#[derive(Debug, Clone)]
struct Flight {
    signed: Signed,
    /// TRX that go along, in sun.
    value_sun: u64,
    /// What it takes besides.
    cost: Cost,
    launched_at: Instant,
    sent_at: Instant,
    /// Why a node did not take it, the last time that one did not.
    refusal: Option<String>,
    /// How many were sent for the purpose, with this one.
    attempt: u64,
    status: FlightStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlightStatus {
    Open,
    /// It was seen in a block, which can still be left.
    Landed,
    /// It did not land and never will, or it failed in a solidified block.
    Lost,
}

impl Flight {
    /// Whether nothing else is to be sent for `task`.
    fn serves(&self, task: &Task) -> bool {
        match self.status {
            FlightStatus::Open => true,
            FlightStatus::Landed => !task.again,
            FlightStatus::Lost => false,
        }
    }

    /// Whether it is in no block that was seen, and a block after `settled` can have it.
    fn may_land(&self, settled: &Block) -> bool {
        self.status == FlightStatus::Open && self.signed.expiration_ms > settled.time_ms
    }
}

/// The account.
#[derive(Debug)]
pub struct Wallet {
    node: Node,
    key: Secp256k1Key,
    account: Account,
    patience: Patience,
    flights: Mutex<BTreeMap<String, Flight>>,
}

impl Wallet {
    /// The account of `key` on the chain of `node`. No other process may send from it.
    pub fn new(node: Node, key: impl Into<Secp256k1Key>) -> Self {
        let key = key.into();
        let account = account_of(&key);
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

    /// The account's twenty bytes.
    pub fn address(&self) -> Address {
        self.key.address()
    }

    /// The chain.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Does `task` and waits until its transaction landed and had its effect; returns its hash, hex with 0x. It can still be
    /// taken back by a fork.
    ///
    /// # Errors
    /// [`PerformError::Transient`] also when it did not land within a bounded time, never will, or cannot be paid for: look at
    /// the chain, and ask again. [`PerformError::TooLate`] when no block could hold it in time.
    pub(super) async fn execute(&self, task: &Task) -> Result<String, PerformError> {
        let underway = self.flights.lock().await.get(&task.purpose).is_some_and(|flight| flight.serves(task));
        if !underway {
            self.launch(task).await?;
        }
        let started = Instant::now();
        while started.elapsed() < self.patience.wait_max {
            match self.look(task).await {
                Ok(Some(hash)) => return Ok(hash),
                Ok(None) => {}
                Err(Ended::By(error)) => return Err(error),
                Err(Ended::Not(fault)) => {
                    tracing::debug!(%fault, purpose = task.purpose, "transaction not looked after");
                }
            }
            // However long no block comes, what is on its way is looked after.
            let _ = tokio::time::timeout(self.patience.resend_after, self.node.next_block()).await;
        }
        let waited = self.patience.wait_max.as_secs();
        Err(Transient::unreachable(format!("{}: in no block within {waited} s", task.purpose)).into())
    }

    async fn launch(&self, task: &Task) -> Result<(), PerformError> {
        let attempt = self.flights.lock().await.get(&task.purpose).map_or(1, |before| before.attempt.saturating_add(1));
        let head = self.node.head().await?;
        let expiration_ms = expiration(&head, task.until)?;
        let energy = self.trial(task).await?;
        let (prices, resources) = (self.node.prices().await?, self.node.resources(self.address()).await?);
        // What is named is not taken away by a fork, and the transaction with it.
        let settled = self.node.settled().await?;
        let draft = Draft {
            call: Call {
                owner: self.address(),
                contract: task.contract,
                data: task.data.clone(),
                value_sun: task.value_sun,
            },
            fee_limit_sun: fee_limit(energy, task.spare, attempt, &prices)?,
            reference: Reference::of(&settled),
            timestamp_ms: head.time_ms,
            expiration_ms,
        };
        let signed = draft.sign_by(&self.key).await.map_err(Transient::from)?;
        let cost = Cost::new(with_reserve(energy).saturating_add(task.spare.left), signed.bytes.len());
        let mut flights = self.flights.lock().await;
        flights.retain(|_, flight| flight.launched_at.elapsed() < REMEMBERED);
        if flights.get(&task.purpose).is_some_and(|flight| flight.serves(task)) {
            return Ok(());
        }
        let open = flights.values().filter(|flight| flight.may_land(&settled));
        if let Some(lacking) = lacking(open, task.value_sun, cost, &resources, &prices) {
            let (purpose, account) = (&task.purpose, self.account());
            return Err(
                Transient::rate_limited(format!("{purpose}: nothing was sent from {account}: {lacking}")).into()
            );
        }
        let now = Instant::now();
        let flight = Flight {
            signed,
            value_sun: task.value_sun,
            cost,
            launched_at: now,
            sent_at: now,
            refusal: None,
            attempt,
            status: FlightStatus::Open,
        };
        flights.insert(task.purpose.clone(), flight.clone());
        drop(flights);
        // Neither silence nor a refusal says what becomes of it, so it is watched, and sent again.
        self.send(task, &flight).await;
        Ok(())
    }

    /// The energy that `task` takes in the newest state.
    async fn trial(&self, task: &Task) -> Result<u64, PerformError> {
        match self.node.trial(self.address(), task.contract, task.data.clone(), task.value_sun).await? {
            Answer::Returned { energy, .. } => Ok(energy),
            Answer::Reverted { reason, .. } => {
                Err(PerformError::Refused(Box::new(self.node.refusal(task.contract, reason))))
            }
        }
    }

    /// Looks for the transaction; keeps it alive while it is in no block.
    async fn look(&self, task: &Task) -> Result<Option<String>, Ended> {
        let flight =
            self.flights.lock().await.get(&task.purpose).filter(|flight| flight.status != FlightStatus::Lost).cloned();
        let Some(flight) = flight else {
            return Err(Transient::contradiction(format!("{}: finished by another call", task.purpose)).into_end());
        };
        let id = flight.signed.id;
        let Sight { settled, info, is_over } = Sight::of(&self.node, id, flight.signed.expiration_ms).await?;
        match info {
            Some(Info { failure: None, .. }) => {
                self.mark(&task.purpose, id, FlightStatus::Landed).await;
                Ok(Some(id.to_string()))
            }
            Some(info) => {
                if info.block_number <= settled.number {
                    self.mark(&task.purpose, id, FlightStatus::Lost).await;
                }
                Err(Ended::By(self.failed(task, info)))
            }
            None if is_over => {
                self.mark(&task.purpose, id, FlightStatus::Lost).await;
                Err(Transient::unreachable(never_landed(task, &flight, &settled)).into_end())
            }
            None => {
                if flight.sent_at.elapsed() >= self.patience.resend_after {
                    self.send(task, &flight).await;
                }
                Ok(None)
            }
        }
    }

    async fn send(&self, task: &Task, flight: &Flight) {
        let refusal = self.node.broadcast(&flight.signed.bytes).await.err().map(|error| error.to_string());
        if let Some(refusal) = &refusal {
            tracing::debug!(refusal, purpose = task.purpose, "transaction was not taken");
        }
        if let Some(kept) = self.flights.lock().await.get_mut(&task.purpose) {
            kept.sent_at = Instant::now();
            kept.refusal = refusal;
        }
    }

    async fn mark(&self, purpose: &str, id: B256, status: FlightStatus) {
        if let Some(flight) = self.flights.lock().await.get_mut(purpose).filter(|flight| flight.signed.id == id) {
            flight.status = status;
        }
    }

    fn failed(&self, task: &Task, info: Info) -> PerformError {
        let mut context = self.node.refusal(task.contract, info.failure.unwrap_or_default());
        context.transaction_hash = Some(info.id.to_string());
        context.block_number = Some(info.block_number);
        context.gas_used = Some(info.energy.to_string());
        PerformError::Refused(Box::new(context))
    }
}

/// The expiration of a transaction that is made at `head`: a block behind `until`, when there is one, so that a block which
/// comes when it should is not later than that.
fn expiration(head: &Block, until: Option<u64>) -> Result<u64, PerformError> {
    let own = head.time_ms.saturating_add(LIFETIME_MS);
    let Some(until) = until else { return Ok(own) };
    let last = until.saturating_mul(1_000).saturating_sub(BLOCK_MS);
    // The next block is under way already.
    if last <= head.time_ms.saturating_add(BLOCK_MS) {
        let now = head.time_ms / 1_000;
        return Err(PerformError::TooLate(format!("the chain is at {now}, and no block would be in time for {until}")));
    }
    Ok(own.min(last))
}

/// The `fee_limit` in sun of a call that took `energy` when it was tried out: more with each attempt, since one that ran out of
/// energy has cost all of its limit, and the highest that the network takes.
fn fee_limit(energy: u64, spare: Spare, attempt: u64, prices: &Prices) -> Result<u64, Transient> {
    let least = with_reserve(energy).saturating_add(spare.left);
    let usual = with_margin(energy).max(spare.limit).max(least);
    let covers = |energy| Cost { energy, bandwidth: 0 }.fee_limit(prices);
    covers(usual.saturating_mul(attempt)).or_else(|_| covers(usual)).or_else(|_| covers(least))
}

/// What an account with `resources` lacks for a transaction that takes `cost` and sends `value_sun`, in words; `None` when it
/// lacks nothing. What the `open` ones may still take is not there for this one: TRX, energy and bandwidth.
fn lacking<'a>(
    open: impl Iterator<Item = &'a Flight>,
    value_sun: u64,
    cost: Cost,
    resources: &AccountResources,
    prices: &Prices,
) -> Option<String> {
    let (sun, all) = open
        .fold((value_sun, cost), |(sun, all), flight| (sun.saturating_add(flight.value_sun), all.plus(&flight.cost)));
    match resources.balance_sun.checked_sub(sun) {
        Some(balance_sun) => all.lacking(&AccountResources { balance_sun, ..*resources }, prices),
        None => Some(format!("{sun} sun are to be sent, and the account has {}", resources.balance_sun)),
    }
}

fn never_landed(task: &Task, flight: &Flight, settled: &Block) -> String {
    let Signed { id, expiration_ms, .. } = flight.signed;
    let refusal = flight.refusal.as_ref().map(|refusal| format!("; a node said: {refusal}")).unwrap_or_default();
    let (purpose, number) = (&task.purpose, settled.number);
    format!("{purpose}: {id} did not land until {expiration_ms}, which solidified block {number} has passed{refusal}")
}

/// Why a look at a transaction does not say that it landed.
enum Ended {
    /// It is not over: the node gave no answer; look again.
    Not(Transient),
    /// There is nothing to wait for any more.
    By(PerformError),
}

impl From<Transient> for Ended {
    fn from(fault: Transient) -> Self {
        Self::Not(fault)
    }
}

/// A fault that ends the wait.
trait IntoEnd {
    fn into_end(self) -> Ended;
}

impl IntoEnd for Transient {
    fn into_end(self) -> Ended {
        Ended::By(self.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: Prices = Prices { energy_sun: 100, bandwidth_sun: 1_000, fee_limit_max_sun: Some(15_000_000_000) };

    fn head(time_ms: u64) -> Block {
        Block { number: 9, id: B256::ZERO, parent: B256::ZERO, time_ms }
    }

    #[test]
    fn no_transaction_lands_later_than_it_may() {
        let head = head(1_000_000);
        assert_eq!(expiration(&head, None).unwrap(), 1_000_000 + LIFETIME_MS);
        assert_eq!(expiration(&head, Some(2_000)).unwrap(), 1_000_000 + LIFETIME_MS);
        // A block whose parent is older than this has at most the time 1020000.
        assert_eq!(expiration(&head, Some(1_020)).unwrap(), 1_017_000);
        assert_eq!(expiration(&head, Some(1_007)).unwrap(), 1_004_000);
        for late in [1_006, 1_000, 999, 1, 0] {
            assert!(matches!(expiration(&head, Some(late)), Err(PerformError::TooLate(_))), "{late}");
        }
    }

    #[test]
    fn energy_has_a_margin_and_a_payout_more_of_it() {
        let limit = |energy, spare| fee_limit(energy, spare, 1, &PRICES).map(|limit| limit / PRICES.energy_sun);
        assert_eq!(limit(100_000, Spare::default()), Ok(150_000));
        assert_eq!(limit(100_000, Spare::PAYOUT), Ok(1_000_000));
        // Half as much again is not enough where so much has to be left.
        assert_eq!(limit(700_000, Spare::PAYOUT), Ok(1_135_000));
        assert_eq!(limit(2_000_000, Spare::PAYOUT), Ok(3_000_000));
        // Above what the network takes there is no margin, and then no transaction.
        assert_eq!(limit(120_000_000, Spare::default()), Ok(126_000_000));
        assert!(limit(143_000_000, Spare::default()).is_err());
        assert_eq!(fee_limit(100_000, Spare::default(), 3, &PRICES), Ok(45_000_000));
        assert_eq!(fee_limit(100_000_000, Spare::default(), 3, &PRICES), Ok(15_000_000_000));
        assert!(limit(u64::MAX, Spare::PAYOUT).is_err());
    }
}
