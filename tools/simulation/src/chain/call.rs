//! `eth_call` and `eth_estimateGas`.

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
    node_view::NodeView,
    state::Snapshot,
    vm::{self, BLOCK_GAS, BlockEnvironment, Rules},
};

/// Gas of a call that names none, as geth has it.
const CALL_GAS: u64 = 50_000_000;
/// Gas that a call with value gives its receiver on top, which an estimate must leave room for.
const STIPEND: u64 = 2_300;
/// Gas of a plain transfer.
const TRANSFER_GAS: u64 = 21_000;
/// An estimate is no closer than this many thousandths of itself, as geth has it.
const ESTIMATE_THOUSANDTHS: u64 = 15;

/// The request of a call or an estimate: a transaction without a signature.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallRequest {
    from: Option<Address>,
    to: Option<Address>,
    gas: Option<U64>,
    value: Option<U256>,
    #[serde(alias = "input")]
    data: Option<Bytes>,
}

impl CallRequest {
    pub fn parse(parameter: &Value) -> Result<Self, RpcFault> {
        serde_json::from_value(parameter.clone())
            .map_err(|error| RpcFault::parameters(format!("invalid argument 0: {error}")))
    }

    /// A call of `to` with `data`, by nobody.
    pub fn of(to: Address, data: Bytes) -> Self {
        Self { to: Some(to), data: Some(data), ..Self::default() }
    }

    fn transaction_environment(&self, evm_id: u64, gas_limit: u64) -> TxEnv {
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

/// The context of a call: the state after `block`, run in `environment`.
pub(super) struct CallContext<'a> {
    pub node_view: NodeView<'a>,
    pub block: &'a Block,
    pub environment: BlockEnvironment,
}

impl CallContext<'_> {
    fn run(&self, request: &CallRequest, gas: u64) -> Result<ExecutionResult, RpcFault> {
        let snapshot = Snapshot { state: &self.block.state, branch: self.node_view.branch };
        let tx = request.transaction_environment(self.environment.evm_id, gas);
        match vm::run(snapshot, &self.environment, tx, Rules::Asked) {
            Ok(outcome) => Ok(outcome.result),
            Err(EVMError::Transaction(InvalidTransaction::LackOfFundForMaxFee { fee, balance })) => {
                let from = request.from.unwrap_or_default();
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
    pub fn call(&self, request: &CallRequest) -> Result<Bytes, RpcFault> {
        let gas = request.gas.map_or(CALL_GAS, |gas| gas.to::<u64>().min(CALL_GAS));
        vm::returned(self.run(request, gas)?)
    }

    /// Gas with which the transaction succeeds, found as geth finds it.
    pub fn estimate(&self, request: &CallRequest) -> Result<u64, RpcFault> {
        let limit = request.gas.map_or(BLOCK_GAS, |gas| gas.to::<u64>().min(BLOCK_GAS));
        let plain = request.data.as_ref().is_none_or(|data| data.is_empty())
            && request.to.is_some_and(|to| self.block.state.account(to).code.is_empty());
        if plain && self.succeeds(request, TRANSFER_GAS) {
            return Ok(TRANSFER_GAS);
        }
        let result = self.run(request, limit)?;
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
            if self.succeeds(request, hopeful) { high = hopeful } else { low = hopeful }
        }
        while low + 1 < high && (high - low) * 1_000 >= high * ESTIMATE_THOUSANDTHS {
            let middle = low.midpoint(high).min(low.saturating_mul(2));
            if self.succeeds(request, middle) { high = middle } else { low = middle }
        }
        Ok(high)
    }

    fn succeeds(&self, request: &CallRequest, gas: u64) -> bool {
        self.run(request, gas).is_ok_and(|result| result.is_success())
    }
}
