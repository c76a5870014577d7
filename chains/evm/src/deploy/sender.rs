//! The transactions of a deployment: noted before they are sent, sent until one of them is in a block, offered at a higher
//! price when they wait.

use std::time::Duration;

use alloy::{
    consensus::TxEip1559,
    primitives::{Address, B256, Bytes, TxKind, U64, U256},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use chains::deployment::{DeployError, Notes};
use signer::Secp256k1Key;

use crate::{
    rpc::{Fault, Rpc},
    transaction,
};

/// The node is asked whether a transaction is in a block after this time, and then after ever more, up to [`POLL_MAX`].
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(2);
/// How long one call of a deployment waits for a block; the next goes on from there.
const WAIT_MAX: Duration = Duration::from_secs(30 * 60);
/// Priority fee where the node has no opinion, in wei.
const PRIORITY_DEFAULT: u128 = 1_000_000_000;
/// What is offered at most, as a multiple of the base fee. What is not needed is not paid (EIP-1559).
const HEADROOM: u128 = 2;
/// What an estimate of gas is raised by, in percent.
const GAS_MARGIN_PERCENT: u64 = 15;
/// What a replacement raises fees by, in percent; nodes want 10.
const BUMP_PERCENT: u128 = 25;

/// A run offers at most so many times what its plan reckoned with. More is for a run whose plan says so: a node that lies about
/// prices would else have all that the payer has.
const RISE_MAX: u128 = 8;

/// What a transaction offers, in wei per unit of gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Price {
    pub max: u128,
    pub priority: u128,
}

impl Price {
    /// The most that is offered by a run that reckoned with this price.
    pub fn ceiling(self) -> Self {
        Self { max: self.max.saturating_mul(RISE_MAX), priority: self.priority.saturating_mul(RISE_MAX) }
    }

    /// What replaces a transaction of this price where the chain asks for `current`; `None` where it need not be replaced, or
    /// not below `ceiling`.
    fn raised(self, current: Self, ceiling: Self) -> Option<Self> {
        if current.max <= self.max && current.priority <= self.priority {
            return None;
        }
        let least = |fee: u128| fee.saturating_add(fee.saturating_mul(BUMP_PERCENT) / 100).saturating_add(1);
        let (max, priority) = (least(self.max), least(self.priority));
        if max > ceiling.max || priority > ceiling.priority {
            return None;
        }
        let (max, priority) =
            (max.max(current.max).min(ceiling.max), priority.max(current.priority).min(ceiling.priority));
        Some(Self { max, priority: priority.min(max) })
    }
}

/// A call that a step makes.
pub(super) struct Call {
    pub to: Address,
    pub data: Bytes,
    pub value: U256,
}

/// What was sent for a step: one nonce, and every version that was signed for it.
#[derive(Debug, Serialize, Deserialize)]
struct Sent {
    nonce: u64,
    gas: u64,
    price: Price,
    versions: Vec<Version>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Version {
    hash: B256,
    raw: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    status: Option<U64>,
    block_number: Option<U64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    base_fee_per_gas: Option<U256>,
}

/// What the node says that a transaction came to.
enum Outcome {
    InBlock,
    Failed(B256),
    Waits,
    /// Another transaction has its nonce.
    Lost,
}

/// A node that a deployment talks to.
#[derive(Debug)]
pub(super) struct Sender<'a> {
    pub rpc: &'a Rpc,
    pub evm_id: u64,
    /// How long a transaction waits for a block before it is offered at a higher price.
    pub patience: Duration,
    /// The priority fee that was reckoned with, in wei: what nodes suggest later may be what this deployment paid itself.
    pub priority: u128,
    /// The most that is offered.
    pub ceiling: Price,
}

/// The node's silence is told from its refusal.
pub(super) fn fault(step: &str, fault: Fault) -> DeployError {
    let refused = |reason| DeployError::Refused { step: step.to_owned(), reason };
    match fault {
        Fault::Unanswered(silence) => DeployError::Unanswered(silence.to_string()),
        Fault::Reverted(revert) => refused(revert.reason),
        Fault::Rejected(words) => refused(words),
    }
}

impl Sender<'_> {
    async fn ask<P, R>(&self, step: &str, method: &'static str, params: P) -> Result<R, DeployError>
    where
        P: Serialize + Clone + std::fmt::Debug + Send + Sync + Unpin,
        R: DeserializeOwned + std::fmt::Debug + Send + Sync + Unpin + 'static,
    {
        self.rpc.call(method, params).await.map_err(|error| fault(step, error))
    }

    /// What a transaction offers that is to be in one of the next blocks.
    pub(super) async fn price(&self) -> Result<Price, DeployError> {
        let head: Option<Head> = self.ask("price of gas", "eth_getBlockByNumber", ("latest", false)).await?;
        let base = head.and_then(|head| head.base_fee_per_gas);
        let base = base.ok_or_else(|| DeployError::Unfit("the chain has no base fee (EIP-1559)".to_owned()))?;
        let base = u128::try_from(base).map_err(|_| DeployError::Unfit("a base fee above 128 bits".to_owned()))?;
        let priority = match self.rpc.call::<_, U256>("eth_maxPriorityFeePerGas", ()).await {
            Ok(fee) => u128::try_from(fee).unwrap_or(PRIORITY_DEFAULT).max(1),
            Err(Fault::Rejected(_)) => PRIORITY_DEFAULT,
            Err(error) => return Err(fault("price of gas", error)),
        };
        Ok(Price { max: base.saturating_mul(HEADROOM).saturating_add(priority), priority })
    }

    /// Gas for what `call` says, with a margin.
    pub(super) async fn gas(
        &self,
        step: &str,
        from: Address,
        to: Option<Address>,
        call: &Call,
    ) -> Result<u64, DeployError> {
        let mut request = json!({"from": from, "data": call.data, "value": call.value});
        if let Some(to) = to {
            request["to"] = json!(to);
        }
        let gas: U64 = self.ask(step, "eth_estimateGas", (request,)).await?;
        let gas = gas.to::<u64>();
        Ok(gas.saturating_add(gas / 100 * GAS_MARGIN_PERCENT))
    }

    /// Makes `call` once: goes on with what was noted for the step, or signs, notes and sends it; returns when it is in a
    /// block.
    pub(super) async fn land(
        &self,
        step: &str,
        signer: &Secp256k1Key,
        call: &Call,
        notes: &dyn Notes,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<(), DeployError> {
        let mut sent = match read(notes, step)? {
            Some(sent) => {
                tell(&format!("{step}: goes on with what was sent before"));
                sent
            }
            None => self.begin(step, signer, call, notes).await?,
        };
        let begun = Instant::now();
        let mut offered = Instant::now();
        let mut told = false;
        let mut taken = false;
        let mut pause = POLL_MIN;
        loop {
            match self.outcome(signer.address(), &sent).await {
                Ok(Outcome::InBlock) => return Ok(()),
                Ok(Outcome::Failed(hash)) => {
                    notes.put(step, Value::Null)?;
                    return Err(refused(step, format!("transaction {hash} failed")));
                }
                Ok(Outcome::Lost) => {
                    notes.put(step, Value::Null)?;
                    let nonce = sent.nonce;
                    return Err(refused(
                        step,
                        format!("another transaction of the payer has its nonce, {nonce}; run this again"),
                    ));
                }
                Ok(Outcome::Waits) => match self.offer(step, &sent).await {
                    Ok(()) => taken = true,
                    // What a node took once it may refuse later, as the price rises.
                    Err(_) if taken => {}
                    Err(error) => {
                        if !self.reprice(step, signer, call, &mut sent, notes).await? {
                            return Err(error);
                        }
                    }
                },
                // Silence says nothing about the transaction.
                Err(DeployError::Unanswered(_)) => {}
                Err(error) => return Err(error),
            }
            if begun.elapsed() > WAIT_MAX {
                return Err(DeployError::Unanswered(format!("{step}: in no block yet; the same call goes on waiting")));
            }
            if !told {
                let hash = sent.versions.last().map(|version| version.hash.to_string()).unwrap_or_default();
                tell(&format!("{step}: transaction {hash} waits for a block"));
                told = true;
            }
            if offered.elapsed() >= self.patience {
                offered = Instant::now();
                if self.reprice(step, signer, call, &mut sent, notes).await? {
                    (told, taken, pause) = (false, false, POLL_MIN);
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// Sends what somebody else signed, until what it is for is done.
    pub(super) async fn make<F>(&self, step: &str, raw: Bytes, is_done: impl Fn() -> F) -> Result<(), DeployError>
    where
        F: Future<Output = Result<bool, DeployError>>,
    {
        let begun = Instant::now();
        let mut pause = POLL_MIN;
        loop {
            match self.rpc.call::<_, B256>("eth_sendRawTransaction", (raw.clone(),)).await {
                Ok(_) | Err(Fault::Unanswered(_)) => {}
                Err(Fault::Rejected(words)) if is_no_news(&words) => {}
                // It may have been taken meanwhile, by whoever sent it.
                Err(error) => return if is_done().await? { Ok(()) } else { Err(fault(step, error)) },
            }
            match is_done().await {
                Ok(true) => return Ok(()),
                Ok(false) | Err(DeployError::Unanswered(_)) if begun.elapsed() <= WAIT_MAX => {
                    sleep(pause).await;
                    pause = (pause * 2).min(POLL_MAX);
                }
                Ok(false) => {
                    return Err(DeployError::Unanswered(format!(
                        "{step}: in no block yet; the same call goes on waiting"
                    )));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn begin(
        &self,
        step: &str,
        signer: &Secp256k1Key,
        call: &Call,
        notes: &dyn Notes,
    ) -> Result<Sent, DeployError> {
        let gas = self.gas(step, signer.address(), Some(call.to), call).await?;
        let current = self.price().await?;
        let priority = current.priority.min(self.priority);
        let max = (current.max - current.priority).saturating_add(priority).min(self.ceiling.max);
        let price = Price { max, priority };
        let nonce: U64 = self.ask(step, "eth_getTransactionCount", (signer.address(), "pending")).await?;
        let mut sent = Sent { nonce: nonce.to(), gas, price, versions: Vec::new() };
        self.sign(step, signer, call, &mut sent, notes).await?;
        Ok(sent)
    }

    /// Signs a version and notes it. Only then it may be sent.
    async fn sign(
        &self,
        step: &str,
        signer: &Secp256k1Key,
        call: &Call,
        sent: &mut Sent,
        notes: &dyn Notes,
    ) -> Result<(), DeployError> {
        let unsigned = TxEip1559 {
            chain_id: self.evm_id,
            nonce: sent.nonce,
            gas_limit: sent.gas,
            max_fee_per_gas: sent.price.max,
            max_priority_fee_per_gas: sent.price.priority,
            to: TxKind::Call(call.to),
            value: call.value,
            input: call.data.clone(),
            ..TxEip1559::default()
        };
        let signed = transaction::sign(signer, &unsigned).await.map_err(|error| refused(step, error.to_string()))?;
        sent.versions.push(Version { hash: signed.hash, raw: signed.raw });
        let note = serde_json::to_value(&*sent).map_err(|error| DeployError::Notes(error.to_string()))?;
        notes.put(step, note)
    }

    /// Signs a version with a higher price where the chain asks for one by now, up to the ceiling; whether it did.
    async fn reprice(
        &self,
        step: &str,
        signer: &Secp256k1Key,
        call: &Call,
        sent: &mut Sent,
        notes: &dyn Notes,
    ) -> Result<bool, DeployError> {
        let Ok(current) = self.price().await else { return Ok(false) };
        let Some(price) = sent.price.raised(current, self.ceiling) else { return Ok(false) };
        sent.price = price;
        self.sign(step, signer, call, sent, notes).await?;
        Ok(true)
    }

    async fn outcome(&self, payer: Address, sent: &Sent) -> Result<Outcome, DeployError> {
        // Before the receipts: what is used up later is seen in the next round.
        let used: U64 = self.ask("nonce", "eth_getTransactionCount", (payer, "latest")).await?;
        for version in &sent.versions {
            let receipt: Option<Receipt> = self.ask("receipt", "eth_getTransactionReceipt", (version.hash,)).await?;
            match receipt.filter(|receipt| receipt.block_number.is_some()).map(|receipt| receipt.status) {
                Some(Some(status)) if status == U64::from(1) => return Ok(Outcome::InBlock),
                Some(_) => return Ok(Outcome::Failed(version.hash)),
                None => {}
            }
        }
        Ok(if used.to::<u64>() > sent.nonce { Outcome::Lost } else { Outcome::Waits })
    }

    /// Sends the newest version, once more if need be.
    async fn offer(&self, step: &str, sent: &Sent) -> Result<(), DeployError> {
        let Some(version) = sent.versions.last() else { return Ok(()) };
        match self.rpc.call::<_, B256>("eth_sendRawTransaction", (version.raw.clone(),)).await {
            Ok(_) | Err(Fault::Unanswered(_)) => Ok(()),
            Err(Fault::Rejected(words)) if is_no_news(&words) => Ok(()),
            Err(error) => Err(fault(step, error)),
        }
    }
}

/// What nodes say of a transaction that they have, or that is in a block by now.
fn is_no_news(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    [
        "already known",
        "known transaction",
        "already imported",
        "already exists",
        "nonce too low",
        "replacement transaction",
    ]
    .iter()
    .any(|known| words.contains(known))
}

fn read(notes: &dyn Notes, step: &str) -> Result<Option<Sent>, DeployError> {
    let Some(note) = notes.get(step).filter(|note| !note.is_null()) else { return Ok(None) };
    let sent = serde_json::from_value(note);
    sent.map(Some).map_err(|error| DeployError::Notes(format!("what was noted of {step}: {error}")))
}

fn refused(step: &str, reason: impl Into<String>) -> DeployError {
    DeployError::Refused { step: step.to_owned(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_raised_by_a_quarter_at_least_and_never_beyond_the_ceiling() {
        let price = |max, priority| Price { max, priority };
        let offered = price(100, 10);
        let ceiling = offered.ceiling();
        assert_eq!(ceiling, price(800, 80));
        assert_eq!(offered.raised(price(100, 10), ceiling), None, "the chain asks for no more");
        assert_eq!(offered.raised(price(101, 10), ceiling), Some(price(126, 13)));
        assert_eq!(offered.raised(price(300, 50), ceiling), Some(price(300, 50)));
        assert_eq!(offered.raised(price(u128::MAX, u128::MAX), ceiling), Some(ceiling));
        assert_eq!(ceiling.raised(price(u128::MAX, u128::MAX), ceiling), None, "nothing is left below it");
        assert_eq!(price(700, 10).raised(price(900, 10), ceiling), None, "no node takes less than a tenth more");
    }
}
