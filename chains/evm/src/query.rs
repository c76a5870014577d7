//! Asking a node about accounts, contracts and transactions.

use alloy::{
    primitives::{Address, B256, Bytes, U64, U256},
    sol_types::SolCall,
};
use serde::Deserialize;
use serde_json::{Value, json};

use escrow_abi::{
    contracts::{IERC1271, address},
    revert::Revert,
    signature,
};
use sagas::ports::Transient;

use super::{
    node::{At, Node},
    rpc::Fault,
};

/// Priority fee where the node has no opinion, in wei.
const PRIORITY_FEE_DEFAULT: u128 = 1_000_000_000;
/// No node talks us into a higher priority fee, in wei.
const PRIORITY_FEE_MAX: u128 = 1_000_000_000_000;
/// The most that a transaction offers, as a multiple of the base fee: it may double several times before the
/// transaction no longer fits a block, and what isn't needed isn't paid (EIP-1559).
const BASE_FEE_HEADROOM: u128 = 4;

/// A call of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Who calls.
    pub from: Address,
    /// What is called; `None` for creation code that is run.
    pub to: Option<Address>,
    /// Coins sent along, wei.
    pub value: U256,
    /// Function and arguments.
    pub data: Bytes,
}

/// Under what a call is tried out. What is not given is the node's to choose: much gas, and a price of zero, by which code
/// tells a trial from the real thing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trial {
    /// The most gas it may take.
    pub gas: Option<u64>,
    /// What it offers for gas; the caller must hold the coins for all of it.
    pub fees: Option<Fees>,
}

impl Call {
    fn parameter(&self, trial: Trial) -> Value {
        let mut parameter = json!({"from": self.from, "value": self.value, "data": self.data});
        if let Some(to) = self.to {
            parameter["to"] = json!(to);
        }
        if let Some(gas) = trial.gas {
            parameter["gas"] = json!(U64::from(gas));
        }
        if let Some(fees) = trial.fees {
            parameter["maxFeePerGas"] = json!(U256::from(fees.max));
            parameter["maxPriorityFeePerGas"] = json!(U256::from(fees.priority));
        }
        parameter
    }
}

/// A call that gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing is known.
    #[error(transparent)]
    Transient(#[from] Transient),
    /// The contract refused.
    #[error(transparent)]
    Reverted(#[from] Revert),
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Reverted(revert) => Self::Reverted(revert),
            other => Self::Transient(other.into()),
        }
    }
}

/// What a mined transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The transaction.
    pub transaction_hash: B256,
    /// Number of the block that holds it.
    pub block_number: u64,
    /// Hash of that block.
    pub block_hash: B256,
    /// Whether it did what it was to do.
    pub success: bool,
    /// Gas it used.
    pub gas_used: u64,
}

/// Fees of a transaction, wei per unit of gas (EIP-1559).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fees {
    /// What the newest block burned.
    pub base: u128,
    /// The most that is paid altogether.
    pub max: u128,
    /// What the block's maker gets.
    pub priority: u128,
    /// Gas that the newest block had room for.
    pub block_gas: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawReceipt {
    transaction_hash: B256,
    block_number: Option<U64>,
    block_hash: Option<B256>,
    status: Option<U64>,
    gas_used: U64,
}

impl Node {
    /// What `call` returns at `at`; nothing is sent to the chain.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn call(&self, call: &Call, at: At) -> Result<Bytes, CallError> {
        self.call_under(call, at, Trial::default()).await
    }

    /// As [`Node::call`], under these terms.
    ///
    /// # Errors
    /// [`CallError`]; running out of gas is a refusal.
    pub async fn call_under(&self, call: &Call, at: At, trial: Trial) -> Result<Bytes, CallError> {
        Ok(self.request("eth_call", (call.parameter(trial), at.parameter())).await?)
    }

    /// As [`Node::call`], with no more gas than a stranger's code is given.
    pub(super) async fn call_foreign(&self, call: &Call, at: At, gas: u64) -> Result<Bytes, CallError> {
        self.call_under(call, at, Trial { gas: Some(gas), fees: None }).await
    }

    /// What the view function `call` of `contract` returns at `at`; `None` when there is no contract.
    ///
    /// # Errors
    /// [`Transient`], also when the contract there reverts or returns something else.
    pub async fn view<C: SolCall>(&self, contract: Address, call: &C, at: At) -> Result<Option<C::Return>, Transient> {
        let call = Call { from: Address::ZERO, to: Some(contract), value: U256::ZERO, data: call.abi_encode().into() };
        // A token's code is not ours either.
        let trial = Trial { gas: Some(self.config().gas.call_max), fees: None };
        let returned: Bytes = self.request("eth_call", (call.parameter(trial), at.parameter())).await?;
        if returned.is_empty() && self.code(contract, at).await?.is_empty() {
            return Ok(None);
        }
        C::abi_decode_returns(&returned).map(Some).map_err(|error| {
            Transient::contradiction(format!(
                "{}: {contract} returned what is no {}: {error}",
                self.chain_id(),
                C::SIGNATURE
            ))
        })
    }

    /// What view calls of contracts return at `at`, each for itself, asked for in one request where the node takes that.
    /// Nothing, where there is no contract.
    pub async fn view_all(&self, calls: &[(Address, Bytes)], at: At) -> Vec<Result<Bytes, Transient>> {
        let trial = Trial { gas: Some(self.config().gas.call_max), fees: None };
        let parameters = calls.iter().map(|(contract, data)| {
            let call = Call { from: Address::ZERO, to: Some(*contract), value: U256::ZERO, data: data.clone() };
            (call.parameter(trial), at.parameter())
        });
        let answers = self.request_all("eth_call", &parameters.collect::<Vec<_>>()).await;
        answers.into_iter().map(|answer| answer.map_err(Transient::from)).collect()
    }

    /// Whether the contract account `account` takes `signature` for its own (ERC-1271), when Permit2 asks it and within the
    /// gas that the configuration gives it. An account that needs more, or whose code fails in any other way, does not.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn contract_accepts(
        &self,
        account: Address,
        digest: B256,
        signature: &[u8],
        at: At,
    ) -> Result<bool, Transient> {
        if signature.len() > signature::BYTES_MAX {
            return Ok(false);
        }
        let question = IERC1271::isValidSignatureCall { hash: digest, signature: signature.to_vec().into() };
        let asker = address(&self.config().permit2).unwrap_or_default();
        let call = Call { from: asker, to: Some(account), value: U256::ZERO, data: question.abi_encode().into() };
        match self.call_foreign(&call, at, self.config().gas.call_max).await {
            Ok(answer) => Ok(answer.len() >= 32
                && answer[..4] == IERC1271::isValidSignatureCall::SELECTOR
                && answer[4..32].iter().all(|byte| *byte == 0)),
            Err(CallError::Reverted(_)) => Ok(false),
            Err(CallError::Transient(fault)) => Err(fault),
        }
    }

    /// The code at `account`; empty where there is no contract.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn code(&self, account: Address, at: At) -> Result<Bytes, Transient> {
        Ok(self.request("eth_getCode", (account, at.parameter())).await?)
    }

    /// How many transactions of `account` are in the chain at `at`: its next nonce.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn nonce(&self, account: Address, at: At) -> Result<u64, Transient> {
        let count: U64 = self.request("eth_getTransactionCount", (account, at.parameter())).await?;
        Ok(count.to())
    }

    /// Coins that `account` holds at `at`, wei.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn balance(&self, account: Address, at: At) -> Result<U256, Transient> {
        Ok(self.request("eth_getBalance", (account, at.parameter())).await?)
    }

    /// What the transaction did, if it is in a block that the node holds canonical. The block is not checked.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn receipt(&self, transaction: B256) -> Result<Option<Receipt>, Transient> {
        let raw: Option<RawReceipt> = self.request("eth_getTransactionReceipt", (transaction,)).await?;
        let Some(raw) = raw else { return Ok(None) };
        let (Some(number), Some(hash)) = (raw.block_number, raw.block_hash) else { return Ok(None) };
        if raw.transaction_hash != transaction {
            return Err(self.contradiction("a receipt of another transaction"));
        }
        let status = raw.status.ok_or_else(|| self.contradiction("a receipt without status"))?;
        Ok(Some(Receipt {
            transaction_hash: transaction,
            block_number: number.to(),
            block_hash: hash,
            success: status.to::<u64>() == 1,
            gas_used: raw.gas_used.to(),
        }))
    }

    /// Whether the node knows the transaction, mined or not.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn knows(&self, transaction: B256) -> Result<bool, Transient> {
        let found: Option<Value> = self.request("eth_getTransactionByHash", (transaction,)).await?;
        Ok(found.is_some())
    }

    /// Gas that `call` needs at the newest state, tried out under these terms.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn estimate_gas(&self, call: &Call, trial: Trial) -> Result<u64, CallError> {
        let gas: U64 = self.request("eth_estimateGas", (call.parameter(trial),)).await?;
        Ok(gas.to())
    }

    /// Fees with which a transaction gets into a block even if the base fee doubles twice before.
    ///
    /// # Errors
    /// [`Transient`], also for a chain without EIP-1559.
    pub async fn fees(&self) -> Result<Fees, Transient> {
        let (base, block_gas) = self.newest_gas().await?;
        let base =
            base.ok_or_else(|| Transient::misconfigured(format!("{} has no base fee (EIP-1559)", self.chain_id())))?;
        let base = u128::try_from(base).map_err(|_| self.contradiction("a base fee above 128 bits"))?;
        let priority = match self.request::<_, U256>("eth_maxPriorityFeePerGas", ()).await {
            Ok(fee) => u128::try_from(fee).unwrap_or(PRIORITY_FEE_MAX),
            Err(Fault::Rejected(_)) => PRIORITY_FEE_DEFAULT,
            Err(fault) => return Err(fault.into()),
        };
        let priority = priority.clamp(1, PRIORITY_FEE_MAX);
        let max = base.saturating_mul(BASE_FEE_HEADROOM).saturating_add(priority);
        Ok(Fees { base, max, priority, block_gas })
    }

    /// Sends a signed transaction. One that the node or the chain has already is not a fault.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same.
    pub async fn send(&self, raw: &Bytes) -> Result<(), Transient> {
        Ok(self.try_send(raw).await?)
    }

    /// As [`Node::send`], with the node's refusals told apart from silence.
    pub(crate) async fn try_send(&self, raw: &Bytes) -> Result<(), Fault> {
        match self.request::<_, B256>("eth_sendRawTransaction", (raw,)).await {
            Ok(_) => Ok(()),
            Err(Fault::Rejected(text)) if is_known(&text) => Ok(()),
            Err(fault) => Err(fault),
        }
    }
}

/// The words of the common nodes for a transaction that needs not be sent again.
fn is_known(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "already known",
        "alreadyknown",
        "known transaction",
        "already imported",
        "already exists",
        "nonce too low",
        "nonce is too low",
        "oldnonce",
    ]
    .iter()
    .any(|known| text.contains(known))
}
