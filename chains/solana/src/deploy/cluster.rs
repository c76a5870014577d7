//! Cluster: what a deployment asks a node, and for how long.
//!
//! What is asked changes nothing, so it is asked again until it is answered or a bounded time is over. What is sent may have arrived
//! without an answer: nothing is concluded from silence.

use std::time::Duration;

use data_encoding::BASE64;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;

use chains::{deployment::DeployError, nodes::http::ClientError};
use gateway_program::{Hash, Key};
use sagas::ports::Transient;

use super::{
    Patience,
    back_off::{BackOff, lengthened},
};
use crate::{
    broadcaster::{Blockhash, RawBlockhash, RawFee, RawSimulated},
    node::{Account, Commitment, Contextual, RawAccount},
    nodes::SEND,
    program::{base58, text},
    rpc::{Fault, Rpc},
};

/// A cluster behind one node.
pub(super) struct Cluster {
    rpc: Rpc,
    genesis_hash: Hash,
    back_off: BackOff,
    patience: Patience,
}

/// Accounts as they were at one slot.
pub(super) struct Accounts {
    /// The slot.
    pub slot: u64,
    /// The accounts, in the order asked for; `None` for what does not exist.
    pub accounts: Vec<Option<Account>>,
}

impl Accounts {
    /// The account asked for at `index`.
    pub fn account(&self, index: usize) -> Option<&Account> {
        self.accounts.get(index).and_then(Option::as_ref)
    }
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Status {
    /// The slot that it landed in, and is confirmed.
    pub slot: u64,
    /// Why it failed; `None` when it did not.
    pub error: Option<Value>,
}

/// What a simulation of a transaction showed.
pub(super) struct Simulated {
    /// Why it would fail; `None` when it would not.
    pub error: Option<Value>,
    /// Compute units that it takes.
    pub units: u64,
    /// The last line of its log.
    pub log: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    slot: u64,
    err: Option<Value>,
    confirmation_status: Option<String>,
}

impl Cluster {
    /// The cluster with this genesis hash behind the node at `url`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(url: &Url, genesis_hash: Hash, rpc_timeout: Duration) -> Result<Self, ClientError> {
        let rpc = Rpc::new(url, rpc_timeout)?;
        Ok(Self { rpc, genesis_hash, back_off: BackOff::new(), patience: Patience::default() })
    }

    /// The same with another patience.
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// How long what is waited for.
    pub fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Sees to it that the node is one of this cluster. A node that does not answer at all is not waited for: the address may be
    /// wrong.
    ///
    /// # Errors
    /// [`DeployError::Unfit`] when it is of another cluster.
    pub async fn check(&self) -> Result<(), DeployError> {
        let found: String = self.ask_within("getGenesisHash", json!([]), Duration::ZERO).await?;
        let expected = text(&self.genesis_hash);
        if found != expected {
            let what = format!("the node is of the cluster with the genesis hash {found}, not of {expected}");
            return Err(DeployError::Unfit(what));
        }
        Ok(())
    }

    /// Accounts at one slot that is not below `at_least`.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn accounts(&self, keys: &[Key], commitment: Commitment, at_least: u64) -> Result<Accounts, DeployError> {
        let names: Vec<String> = keys.iter().map(text).collect();
        let how = json!({"encoding": "base64", "commitment": commitment.text(), "minContextSlot": at_least});
        let params = json!([names, how]);
        let started = Instant::now();
        loop {
            let answer: Contextual<Vec<Option<RawAccount>>> = self.ask("getMultipleAccounts", params.clone()).await?;
            let slot = answer.context.slot;
            if answer.value.len() != keys.len() {
                let what = format!("{} accounts for {} names", answer.value.len(), keys.len());
                return Err(DeployError::Unanswered(what));
            }
            if slot >= at_least {
                let accounts = answer.value.into_iter().map(|account| account.map(RawAccount::read).transpose());
                let accounts = accounts.collect::<Result<_, _>>().map_err(DeployError::Unanswered)?;
                return Ok(Accounts { slot, accounts });
            }
            // One of several nodes behind the address, which has not got so far.
            if started.elapsed() >= self.patience.answered_within {
                return Err(DeployError::Unanswered(format!("accounts of slot {slot}, {at_least} was asked for")));
            }
            tokio::time::sleep(self.patience.poll).await;
        }
    }

    /// Lamports that an account of so many bytes must have.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn rent(&self, bytes: usize) -> Result<u64, DeployError> {
        self.ask("getMinimumBalanceForRentExemption", json!([bytes])).await
    }

    /// Returns when the cluster has this slot at `commitment`.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`], also when that takes longer than it may.
    pub async fn wait_for(&self, slot: u64, commitment: Commitment) -> Result<(), DeployError> {
        let started = Instant::now();
        loop {
            let newest: u64 = self.ask("getSlot", json!([{"commitment": commitment.text()}])).await?;
            if newest >= slot {
                return Ok(());
            }
            let waited = self.patience.finalized_within;
            if started.elapsed() >= waited {
                let what = format!("after {waited:?} slot {newest} is {}, not {slot}", commitment.text());
                return Err(DeployError::Unanswered(what));
            }
            tokio::time::sleep(self.patience.poll).await;
        }
    }

    /// The newest confirmed block height.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn height(&self) -> Result<u64, DeployError> {
        self.ask("getBlockHeight", json!([{"commitment": Commitment::Confirmed.text()}])).await
    }

    /// A confirmed blockhash to sign with.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn blockhash(&self) -> Result<Blockhash, DeployError> {
        let how = json!([{"commitment": Commitment::Confirmed.text()}]);
        let answer: Contextual<RawBlockhash> = self.ask("getLatestBlockhash", how).await?;
        let RawBlockhash { blockhash, last_valid_block_height: last_valid_height } = answer.value;
        let unreadable = || DeployError::Unanswered(format!("{blockhash:?} for a blockhash"));
        Ok(Blockhash { hash: base58(&blockhash).ok_or_else(unreadable)?, last_valid_height })
    }

    /// What transactions that wrote to `accounts` paid in the last slots for each compute unit besides the base fee, in
    /// millionths of a lamport.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn recent_fees(&self, accounts: &[Key]) -> Result<Vec<u64>, DeployError> {
        let names: Vec<String> = accounts.iter().map(text).collect();
        let fees: Vec<RawFee> = self.ask("getRecentPrioritizationFees", json!([names])).await?;
        Ok(fees.into_iter().map(|fee| fee.prioritization_fee).collect())
    }

    /// What a transaction would do at the confirmed state of a slot that is not below `at_least`. Its signatures and its blockhash
    /// are not looked at.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn simulate(&self, wire: &[u8], at_least: u64) -> Result<Simulated, DeployError> {
        let how = json!({
            "encoding": "base64",
            "sigVerify": false,
            "replaceRecentBlockhash": true,
            "commitment": Commitment::Confirmed.text(),
            "minContextSlot": at_least,
        });
        let answer: Contextual<RawSimulated> =
            self.ask("simulateTransaction", json!([BASE64.encode(wire), how])).await?;
        let RawSimulated { err: error, units_consumed, logs } = answer.value;
        Ok(Simulated { error, units: units_consumed.unwrap_or(0), log: logs.and_then(|mut logs| logs.pop()) })
    }

    /// Sends a transaction's bytes. That the node knows it already is not a fault, and that it is asked too often is waited out.
    ///
    /// # Errors
    /// [`Transient`]; it may be on its way all the same.
    pub async fn send(&self, wire: &[u8]) -> Result<(), Transient> {
        let started = Instant::now();
        let how = json!({"encoding": "base64", "skipPreflight": true, "maxRetries": 0});
        let params = json!([BASE64.encode(wire), how]);
        loop {
            match self.call::<String>(SEND, params.clone()).await {
                Ok(_) | Err(Fault::Known(_)) => return Ok(()),
                Err(Fault::Unanswered(Transient::RateLimited(_)))
                    if started.elapsed() < self.patience.admitted_within => {}
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// What became of transactions that were sent lately, by hash and in their order; `None` for one that is not confirmed.
    ///
    /// # Errors
    /// [`DeployError::Unanswered`].
    pub async fn statuses(&self, hashes: &[&str]) -> Result<Vec<Option<Status>>, DeployError> {
        let answer: Contextual<Vec<Option<RawStatus>>> = self.ask("getSignatureStatuses", json!([hashes])).await?;
        if answer.value.len() != hashes.len() {
            let what = format!("{} statuses for {} transactions", answer.value.len(), hashes.len());
            return Err(DeployError::Unanswered(what));
        }
        let status = |raw: RawStatus| {
            // What is processed alone can still vanish with its block.
            let is_confirmed = raw.confirmation_status.is_some_and(|status| status != "processed");
            is_confirmed.then_some(Status { slot: raw.slot, error: raw.err })
        };
        Ok(answer.value.into_iter().map(|raw| raw.and_then(status)).collect())
    }

    async fn ask<R: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<R, DeployError> {
        self.ask_within(method, params, self.patience.answered_within).await
    }

    /// Asks until there is an answer, or none for so long.
    async fn ask_within<R: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
        within: Duration,
    ) -> Result<R, DeployError> {
        let (started, mut pause) = (Instant::now(), Duration::ZERO);
        loop {
            let fault = match self.call(method, params.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => Transient::from(fault),
            };
            let is_rate_limited = matches!(fault, Transient::RateLimited(_));
            let within = if is_rate_limited { self.patience.admitted_within } else { within };
            if fault.is_misconfigured() || started.elapsed() >= within {
                return Err(DeployError::Unanswered(fault.to_string()));
            }
            tracing::debug!(%fault, method, "asked again");
            if !is_rate_limited {
                pause = lengthened(pause);
                tokio::time::sleep(pause).await;
            }
        }
    }

    async fn call<R: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<R, Fault> {
        self.back_off.over().await;
        let asked_at = Instant::now();
        let answer = self.rpc.call(method, params).await;
        match &answer {
            Err(Fault::Unanswered(Transient::RateLimited(_))) => self.back_off.begin(asked_at),
            Ok(_) => self.back_off.end(),
            Err(_) => {}
        }
        answer
    }
}
