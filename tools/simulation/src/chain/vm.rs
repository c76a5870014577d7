//! Running code: revm, the EVM of anvil and reth, with the rules of one fork for all chains.

use std::convert::Infallible;

use alloy::primitives::{Address, B256, Bytes, U256};
use revm::{
    Context, ExecuteEvm, MainBuilder, MainContext,
    context::{
        BlockEnv, CfgEnv, TxEnv,
        result::{EVMError, ExecutionResult, HaltReason, ResultAndState},
    },
    context_interface::cfg::gas::calculate_initial_tx_gas_for_tx,
    database_interface::WrapDatabaseRef,
    primitives::hardfork::SpecId,
};

use super::{RpcFault, block::Signed, state::Snapshot};

/// The rules that are in force on every simulated chain.
pub(super) const SPEC: SpecId = SpecId::OSAKA;
/// Gas that fits a block, as anvil has it.
pub(super) const BLOCK_GAS: u64 = 30_000_000;
/// The block producer.
pub(super) const BENEFICIARY: Address = Address::ZERO;

/// The block in which code runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockEnvironment {
    pub evm_id: u64,
    pub number: u64,
    pub time: u64,
    pub base_fee: u64,
    pub randao: B256,
}

/// How a transaction is judged before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// As a block's: nonce, fees and limits count.
    Mined,
    /// As a call: only the coins sent must be there.
    Asked,
}

/// Runs `tx` on `snapshot`, which stays as it is.
pub(super) fn run(
    snapshot: Snapshot<'_>,
    environment: &BlockEnvironment,
    tx: TxEnv,
    rules: Rules,
) -> Result<ResultAndState, EVMError<Infallible>> {
    let asked = rules == Rules::Asked;
    let mut cfg = CfgEnv::new_with_spec(SPEC);
    cfg.chain_id = environment.evm_id;
    cfg.disable_nonce_check = asked;
    cfg.disable_base_fee = asked;
    cfg.disable_block_gas_limit = asked;
    cfg.disable_eip3607 = asked;
    if asked {
        cfg.tx_gas_limit_cap = Some(u64::MAX);
    }
    let block = BlockEnv {
        number: U256::from(environment.number),
        beneficiary: BENEFICIARY,
        timestamp: U256::from(environment.time),
        gas_limit: BLOCK_GAS,
        basefee: environment.base_fee,
        prevrandao: Some(environment.randao),
        ..BlockEnv::default()
    };
    let context = Context::mainnet().with_db(WrapDatabaseRef(snapshot)).with_block(block).with_cfg(cfg);
    context.build_mainnet().transact(tx)
}

/// The return value of a call, or the error that a node answers instead.
pub(super) fn returned(result: ExecutionResult) -> Result<Bytes, RpcFault> {
    match result {
        ExecutionResult::Success { output, .. } => Ok(output.into_data()),
        ExecutionResult::Revert { output, .. } => Err(RpcFault::reverted(&output)),
        ExecutionResult::Halt { reason, .. } => Err(RpcFault::refused(halted(&reason))),
    }
}

fn halted(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        other => format!("execution halted: {other:?}"),
    }
}

/// The gas that `result` needed before refunds.
pub(super) fn gas_spent(result: &ExecutionResult) -> u64 {
    let (ExecutionResult::Success { gas, .. }
    | ExecutionResult::Revert { gas, .. }
    | ExecutionResult::Halt { gas, .. }) = result;
    gas.total_gas_spent()
}

/// Gas that a transaction needs before any of its code runs.
pub(super) fn intrinsic_gas(signed: &Signed) -> u64 {
    let gas = calculate_initial_tx_gas_for_tx(signed.transaction_environment(), SPEC, None);
    gas.initial_total_gas().max(gas.floor_gas())
}
