//! Wallet of one process alone: its transactions are sent, watched, sent again and replaced until they are mined.
//!
//! Nothing is stored. After a restart the node's pending nonce is the start, and whether an effect is on chain already is
//! for the caller to read there first; the contracts take each effect once only.

use std::{collections::BTreeMap, time::Duration};

use alloy::{
    consensus::TxEip1559,
    primitives::{Address, B256, Bytes},
};
use tokio::{sync::Mutex, time::Instant};

use chains::perform::PerformError;
use escrow_abi::contracts::text;
use events::{Account, failure::BlockchainContext};
use sagas::ports::Transient;
use signer::Secp256k1Key;

use super::{
    calls::{Call, CallError, Calls, Trial},
    node::{At, Node},
    query::{Query, Receipt},
    rpc::Fault,
    transaction::{self, Signed},
};

/// Replacements of one transaction; their hashes are all watched.
const HASHES_MAX: usize = 32;

/// How long a [`Wallet`] waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Longest that one call waits for a block that holds its transaction.
    pub wait_max: Duration,
    /// A transaction not mined for so long is sent again: nodes forget.
    pub resend_after: Duration,
    /// A transaction not mined for so long gets higher fees.
    pub reprice_after: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { wait_max: seconds(60), resend_after: seconds(12), reprice_after: seconds(45) }
    }
}

/// A transaction that is on its way.
#[derive(Debug, Clone)]
struct Flight {
    transaction: TxEip1559,
    raw: Bytes,
    hashes: Vec<B256>,
    sent_at: Instant,
    priced_at: Instant,
}

/// The transactions on their way, by purpose.
type Flights = BTreeMap<String, Flight>;

/// The account.
#[derive(Debug)]
pub struct Wallet {
    node: Node,
    signer: Secp256k1Key,
    account: Account,
    patience: Patience,
    flights: Mutex<Flights>,
}

impl Wallet {
    /// The account of `signer` on the chain of `node`. No other process may send from it.
    pub fn new(node: Node, signer: impl Into<Secp256k1Key>) -> Self {
        let signer = signer.into();
        let account = transaction::account_of(&signer);
        Self { node, signer, account, patience: Patience::default(), flights: Mutex::default() }
    }

    /// The same account with another patience.
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The account.
    pub fn address(&self) -> Address {
        self.signer.address()
    }

    /// The same, as the engine has it.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The chain.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Makes `call` and waits until it is in a block. Asked again for a `purpose` whose transaction is on its way, it
    /// waits for that one instead of sending another.
    ///
    /// # Errors
    /// [`PerformError::Transient`] also when no block held it within a bounded time: ask again for the same purpose.
    pub async fn execute(&self, purpose: &str, call: &Call) -> Result<Receipt, PerformError> {
        self.run(purpose, call, None).await
    }

    /// As [`Wallet::execute`], for a call that runs a stranger's code: it is simulated with no more gas than `gas_max` and at the
    /// price that is offered, by which that code could else tell the simulation from the transaction, and the transaction takes
    /// no more gas either.
    ///
    /// # Errors
    /// As there; a call that needs more gas is [`PerformError::Refused`], and nothing was sent.
    pub async fn execute_within(&self, purpose: &str, call: &Call, gas_max: u64) -> Result<Receipt, PerformError> {
        self.run(purpose, call, Some(gas_max)).await
    }

    async fn run(&self, purpose: &str, call: &Call, gas_max: Option<u64>) -> Result<Receipt, PerformError> {
        if !self.flights.lock().await.contains_key(purpose) {
            self.launch(purpose, call, gas_max).await?;
        }
        let started = Instant::now();
        while started.elapsed() < self.patience.wait_max {
            match self.look(purpose).await {
                Ok(Some(receipt)) if receipt.success => return Ok(receipt),
                Ok(Some(receipt)) => return Err(self.reverted(call, receipt).await?),
                Ok(None) => {}
                Err(Lost::Elsewhere(text)) => return Err(Transient::contradiction(text).into()),
                Err(Lost::Fault(fault)) => tracing::debug!(%fault, purpose, "transaction not looked after"),
            }
            // However long no block comes, what is on its way is looked after.
            let _ = tokio::time::timeout(self.patience.resend_after, self.node.next_block()).await;
        }
        Err(Transient::unreachable(format!("{purpose}: in no block within {} s", self.patience.wait_max.as_secs()))
            .into())
    }

    async fn launch(&self, purpose: &str, call: &Call, gas_max: Option<u64>) -> Result<(), PerformError> {
        let fees = Query::of(&self.node).fees().await?;
        let trial = Trial { gas: gas_max, fees: gas_max.map(|_| fees) };
        let gas = Calls::of(&self.node).simulate(call, trial).await.map_err(|error| match error {
            CallError::Transient(fault) => PerformError::Transient(fault),
            CallError::Reverted(revert) => {
                PerformError::Refused(Box::new(Calls::of(&self.node).refusal(call.to, revert.reason)))
            }
        })?;
        let gas_limit = transaction::gas_limit(gas).min(gas_max.unwrap_or(u64::MAX));
        let mut flights = self.flights.lock().await;
        if flights.contains_key(purpose) {
            return Ok(());
        }
        // Whoever waited for these gave up, and they are mined.
        let pending = Query::of(&self.node).nonce(self.address(), At::Pending).await?;
        let forgotten = self.patience.wait_max.saturating_mul(2);
        flights.retain(|_, flight| flight.transaction.nonce >= pending || flight.priced_at.elapsed() < forgotten);
        // A lagging node may not know yet what is on its way. What was mined is the node's to count: a reorganisation
        // may have taken it back.
        let above = flights.values().map(|flight| flight.transaction.nonce + 1).max().unwrap_or_default();
        let nonce = pending.max(above);
        let transaction = transaction::transaction(call, self.node.evm_id(), nonce, gas_limit, fees);
        // Under the lock: the next nonce follows from what is on its way. A key elsewhere answers within its own time-out.
        let Signed { hash, raw } = transaction::sign(&self.signer, &transaction).await.map_err(Transient::from)?;
        match Query::of(&self.node).try_send(&raw).await {
            // Silence is not refusal: the transaction may be on its way, so it is watched.
            Ok(()) | Err(Fault::Unanswered(_)) => {}
            Err(fault) => return Err(Transient::from(fault).into()),
        }
        let now = Instant::now();
        let flight = Flight { transaction, raw, hashes: vec![hash], sent_at: now, priced_at: now };
        flights.insert(purpose.to_owned(), flight);
        Ok(())
    }

    /// Looks for the transaction's receipt; keeps it alive while there is none.
    async fn look(&self, purpose: &str) -> Result<Option<Receipt>, Lost> {
        let flight = self.flights.lock().await.get(purpose).cloned();
        let flight = flight.ok_or_else(|| Lost::Elsewhere(format!("{purpose}: finished by another call")))?;
        let used = Query::of(&self.node).nonce(self.address(), At::Latest).await?;
        for hash in &flight.hashes {
            if let Some(receipt) = Query::of(&self.node).receipt(*hash).await? {
                self.node.canonical(receipt.block_number, receipt.block_hash).await?;
                self.flights.lock().await.remove(purpose);
                return Ok(Some(receipt));
            }
        }
        if used > flight.transaction.nonce {
            if self.may_be_own(purpose, &flight).await? {
                return Ok(None);
            }
            self.flights.lock().await.remove(purpose);
            return Err(Lost::Elsewhere(format!(
                "{purpose}: nonce {} went to another transaction",
                flight.transaction.nonce
            )));
        }
        if flight.sent_at.elapsed() >= self.patience.resend_after {
            self.keep_alive(flight.transaction.nonce).await?;
        }
        Ok(None)
    }

    /// Whether the transaction that took the nonce may be one of these all the same: one that was priced anew since they were read,
    /// or one whose receipt the node does not give yet.
    async fn may_be_own(&self, purpose: &str, read: &Flight) -> Result<bool, Transient> {
        let now = self.flights.lock().await.get(purpose).map(|flight| flight.hashes.clone());
        if now.is_some_and(|hashes| hashes != read.hashes) {
            return Ok(true);
        }
        for hash in &read.hashes {
            if Query::of(&self.node).knows(*hash).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends again whatever is on its way up to `nonce`, since what is missing below holds up what is above.
    async fn keep_alive(&self, nonce: u64) -> Result<(), Transient> {
        let fees = Query::of(&self.node).fees().await?;
        let mut flights = self.flights.lock().await;
        for flight in flights.values_mut().filter(|flight| flight.transaction.nonce <= nonce) {
            flight.sent_at = Instant::now();
            let priced = flight.priced_at.elapsed() >= self.patience.reprice_after && flight.hashes.len() < HASHES_MAX;
            if !(priced && transaction::is_outpriced(&flight.transaction, fees)) {
                Query::of(&self.node).send(&flight.raw).await?;
                continue;
            }
            let bumped = transaction::bumped(&flight.transaction, fees);
            let Signed { hash, raw } = transaction::sign(&self.signer, &bumped).await?;
            match Query::of(&self.node).try_send(&raw).await {
                Ok(()) | Err(Fault::Unanswered(_)) => {
                    flight.transaction = bumped;
                    flight.raw = raw;
                    flight.hashes.push(hash);
                    flight.priced_at = Instant::now();
                }
                // What the node refused is not on its way, and the next price is not built on it.
                Err(fault) => return Err(fault.into()),
            }
        }
        Ok(())
    }

    async fn reverted(&self, call: &Call, receipt: Receipt) -> Result<PerformError, Transient> {
        let reason = Calls::of(&self.node).replay(call, receipt.block_number).await?;
        Ok(PerformError::Refused(Box::new(BlockchainContext {
            chain_id: self.node.chain_id().clone(),
            transaction_hash: Some(receipt.transaction_hash.to_string()),
            block_number: Some(receipt.block_number),
            contract_address: call.to.map(text),
            revert_reason: reason,
            gas_used: Some(receipt.gas_used.to_string()),
            estimated_gas_needed: None,
        })))
    }
}

/// Why a look at a transaction gave no answer.
enum Lost {
    /// The node gave none; look again.
    Fault(Transient),
    /// It is no longer there to be looked at; the caller looks at the chain.
    Elsewhere(String),
}

impl From<Transient> for Lost {
    fn from(fault: Transient) -> Self {
        Self::Fault(fault)
    }
}
