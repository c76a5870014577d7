//! Calls and estimates: what a transaction would do.

use alloy::primitives::{Address, Bytes, TxKind, U64, U256};
use revm::context::{
    TxEnv,
    result::{EVMError, ExecutionResult, InvalidTransaction},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    RpcFault,
    block::Block,
    sight::Sight,
    state::Snapshot,
    vm::{self, BLOCK_GAS, Rules, Surroundings},
};

/// Gas of a call that names none, as geth has it.
const CALL_GAS: u64 = 50_000_000;
/// Gas that a call with value gives its receiver on top, which an estimate must leave room for.
const STIPEND: u64 = 2_300;
/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;
/// An estimate is no closer than this many thousandths of itself, as geth has it.
const ESTIMATE_THOUSANDTHS: u64 = 15;

/// A transaction that nobody signed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Question {
    from: Option<Address>,
    to: Option<Address>,
    gas: Option<U64>,
    value: Option<U256>,
    #[serde(alias = "input")]
    data: Option<Bytes>,
}

impl Question {
    pub fn parse(parameter: &Value) -> Result<Self, RpcFault> {
        serde_json::from_value(parameter.clone())
            .map_err(|error| RpcFault::parameters(format!("invalid argument 0: {error}")))
    }

    /// A call of `to` with `data`, by nobody.
    pub fn of(to: Address, data: Bytes) -> Self {
        Self { to: Some(to), data: Some(data), ..Self::default() }
    }

    fn environment(&self, evm_id: u64, gas_limit: u64) -> TxEnv {
        TxEnv {
            caller: self.from.unwrap_or_default(),
            kind: self.to.map_or(TxKind::Create, TxKind::Call),
            gas_limit,
            value: self.value.unwrap_or_default(),
            data: self.data.clone().unwrap_or_default(),
            chain_id: Some(evm_id),
            ..TxEnv::default()
        }
    }
}

/// Where a question is put: the state after `block`, run in `surroundings`.
pub(super) struct Place<'a> {
    pub sight: Sight<'a>,
    pub block: &'a Block,
    pub surroundings: Surroundings,
}

impl Place<'_> {
    fn run(&self, question: &Question, gas: u64) -> Result<ExecutionResult, RpcFault> {
        let snapshot = Snapshot { state: &self.block.state, branch: self.sight.branch };
        let tx = question.environment(self.surroundings.evm_id, gas);
        match vm::run(snapshot, &self.surroundings, tx, Rules::Asked) {
            Ok(outcome) => Ok(outcome.result),
            Err(EVMError::Transaction(InvalidTransaction::LackOfFundForMaxFee { fee, balance })) => {
                let from = question.from.unwrap_or_default();
                Err(RpcFault::refused(format!(
                    "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
                )))
            }
            Err(EVMError::Transaction(
                InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
                | InvalidTransaction::GasFloorMoreThanGasLimit { .. },
            )) => Err(RpcFault::refused(format!("intrinsic gas too low: have {gas}"))),
            Err(error) => Err(RpcFault::refused(error.to_string())),
        }
    }

    /// What the call returns.
    pub fn call(&self, question: &Question) -> Result<Bytes, RpcFault> {
        let gas = question.gas.map_or(CALL_GAS, |gas| gas.to::<u64>().min(CALL_GAS));
        vm::returned(self.run(question, gas)?)
    }

    /// Gas with which the transaction succeeds, found as geth finds it.
    pub fn estimate(&self, question: &Question) -> Result<u64, RpcFault> {
        let limit = question.gas.map_or(BLOCK_GAS, |gas| gas.to::<u64>().min(BLOCK_GAS));
        let plain = question.data.as_ref().is_none_or(|data| data.is_empty())
            && question.to.is_some_and(|to| self.block.state.account(to).code.is_empty());
        if plain && self.succeeds(question, TRANSFER_GAS) {
            return Ok(TRANSFER_GAS);
        }
        let result = self.run(question, limit)?;
        let spent = vm::gas_spent(&result);
        if let ExecutionResult::Halt { .. } = result {
            return Err(RpcFault::refused(format!("gas required exceeds allowance ({limit})")));
        }
        let used = result.tx_gas_used();
        vm::returned(result)?;
        let (mut low, mut high) = (used.saturating_sub(1), limit);
        // A call passes on 63 of 64 parts of its gas (EIP-150).
        let hopeful = (spent + STIPEND) * 64 / 63;
        if hopeful < high {
            if self.succeeds(question, hopeful) { high = hopeful } else { low = hopeful }
        }
        while low + 1 < high && (high - low) * 1_000 >= high * ESTIMATE_THOUSANDTHS {
            let middle = low.midpoint(high).min(low.saturating_mul(2));
            if self.succeeds(question, middle) { high = middle } else { low = middle }
        }
        Ok(high)
    }

    fn succeeds(&self, question: &Question, gas: u64) -> bool {
        self.run(question, gas).is_ok_and(|result| result.is_success())
    }
}
