//! Calls of contracts, which nodes try out and send nowhere.

use alloy::{
    primitives::{Address, B256, Bytes, U64, U256},
    sol_types::SolCall,
};
use serde_json::{Value, json};

use escrow_abi::{
    contracts::{IERC1271, text},
    revert::Revert,
    signature,
};
use events::failure::BlockchainContext;
use sagas::ports::Transient;

use super::{
    node::{At, Node},
    query::{Fees, Query},
    rpc::Fault,
};

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
pub(crate) struct Trial {
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
pub(crate) enum CallError {
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

/// The calls that are tried out on one chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls<'a> {
    node: &'a Node,
}

impl<'a> Calls<'a> {
    /// Calls that `node` tries out.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// What `call` returns at `at` under these terms; nothing is sent to the chain.
    ///
    /// # Errors
    /// [`CallError`]; running out of gas is a refusal.
    pub async fn call_under(&self, call: &Call, at: At, trial: Trial) -> Result<Bytes, CallError> {
        Ok(self.node.request("eth_call", (call.parameter(trial), at.parameter())).await?)
    }

    /// The same with no more gas than a stranger's code is given.
    pub async fn call_foreign(&self, call: &Call, at: At, gas: u64) -> Result<Bytes, CallError> {
        self.call_under(call, at, Trial { gas: Some(gas), fees: None }).await
    }

    /// What the view function `call` of `contract` returns at `at`; `None` when there is no contract.
    ///
    /// # Errors
    /// [`Transient`], also when the contract there reverts or returns something else.
    pub async fn view<C: SolCall>(&self, contract: Address, call: &C, at: At) -> Result<Option<C::Return>, Transient> {
        let call = Call { from: Address::ZERO, to: Some(contract), value: U256::ZERO, data: call.abi_encode().into() };
        // A token's code is not ours either.
        let trial = Trial { gas: Some(self.node.config().gas.call_max), fees: None };
        let returned: Bytes = self.node.request("eth_call", (call.parameter(trial), at.parameter())).await?;
        if returned.is_empty() && Query::of(self.node).code(contract, at).await?.is_empty() {
            return Ok(None);
        }
        C::abi_decode_returns(&returned).map(Some).map_err(|error| {
            Transient::contradiction(format!(
                "{}: {contract} returned what is not a {}: {error}",
                self.node.chain_id(),
                C::SIGNATURE
            ))
        })
    }

    /// What view calls of contracts return at `at`, each for itself, asked for in one request where the node takes that.
    /// Nothing, where there is no contract.
    pub(crate) async fn view_all(&self, calls: &[(Address, Bytes)], at: At) -> Vec<Result<Bytes, Fault>> {
        let trial = Trial { gas: Some(self.node.config().gas.call_max), fees: None };
        let parameters = calls.iter().map(|(contract, data)| {
            let call = Call { from: Address::ZERO, to: Some(*contract), value: U256::ZERO, data: data.clone() };
            (call.parameter(trial), at.parameter())
        });
        self.node.request_all("eth_call", &parameters.collect::<Vec<_>>()).await
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
        let call = Call {
            from: self.node.permit2(),
            to: Some(account),
            value: U256::ZERO,
            data: question.abi_encode().into(),
        };
        match self.call_foreign(&call, at, self.node.config().gas.call_max).await {
            Ok(answer) => Ok(answer.len() >= 32
                && answer[..4] == IERC1271::isValidSignatureCall::SELECTOR
                && answer[4..32].iter().all(|byte| *byte == 0)),
            Err(CallError::Reverted(_)) => Ok(false),
            Err(CallError::Transient(fault)) => Err(fault),
        }
    }

    /// Gas that `call` needs at the newest state when it is tried out under these terms, or why the contract refuses it.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn simulate(&self, call: &Call, trial: Trial) -> Result<u64, CallError> {
        // Asked first by `eth_call`: not every node passes on the reason from an estimate.
        self.call_under(call, At::Latest, trial).await?;
        let gas: U64 = self.node.request("eth_estimateGas", (call.parameter(trial),)).await?;
        Ok(gas.to())
    }

    /// Why `call` reverts at the end of block `number`, or of the one before; `None` when it does not, or when the node
    /// no longer has those states.
    pub async fn replay(&self, call: &Call, number: u64) -> Result<Option<String>, Transient> {
        for number in [number, number.saturating_sub(1)] {
            let Some(block) = self.node.block(number).await? else { continue };
            // What it runs may be a stranger's, and only its words are wanted.
            let gas = self.node.config().gas.deposit_max;
            if let Err(CallError::Reverted(revert)) = self.call_foreign(call, At::Block(block), gas).await {
                return Ok(Some(revert.reason));
            }
        }
        Ok(None)
    }

    /// The context of a failure on this chain, with nothing but the place and the reason.
    pub fn refusal(&self, contract: Option<Address>, reason: String) -> BlockchainContext {
        BlockchainContext {
            chain_id: self.node.chain_id().clone(),
            transaction_hash: None,
            block_number: None,
            contract_address: contract.map(text),
            revert_reason: Some(reason),
            gas_used: None,
            estimated_gas_needed: None,
        }
    }
}
