//! Code execution on revm, with the TVM's differences from the EVM.

use revm::{
    Context, InspectEvm, Inspector, MainBuilder, MainContext,
    context::{
        BlockEnv, CfgEnv, TxEnv,
        result::{EVMError, ExecutionResult, HaltReason, ResultAndState},
    },
    context_interface::{CreateScheme, cfg::gas::calculate_initial_tx_gas_for_tx},
    database_interface::WrapDatabaseRef,
    interpreter::{CallInputs, CallOutcome, CreateInputs, CreateOutcome},
    primitives::{Address as EvmAddress, B256, Bytes, Log, TxKind, U256, hardfork::SpecId, keccak256},
    state::EvmState,
};

use super::state::{State, View};
use crate::{Address, Refusal, address::PREFIX, transaction::TxId};

/// The EVM's rules that the TVM's instructions follow.
const SPEC: SpecId = SpecId::CANCUN;

/// The block in which code runs.
#[derive(Debug, Clone)]
pub(crate) struct BlockEnvironment {
    pub chain_id: u32,
    pub number: u64,
    /// Milliseconds since 1970.
    pub time: i64,
    pub witness: Address,
    /// What `BASEFEE` gives: on Tron the price of energy.
    pub energy_price_sun: u64,
    /// Ids of the blocks before, the newest first.
    pub parents: Vec<B256>,
}

/// The code to run.
#[derive(Debug, Clone)]
pub(crate) struct Run<'a> {
    pub id: TxId,
    pub caller: Address,
    /// A contract, or none for a deployment.
    pub target: Option<Address>,
    pub value: u64,
    pub data: &'a [u8],
    pub energy_limit: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Success,
    Revert,
    /// `contractResult` of the protocol, and the words.
    Halt(&'static str, String),
}

/// The result of a run.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub ending: Ending,
    /// Returned or reverted with; a deployment's code.
    pub output: Bytes,
    pub energy: u64,
    pub logs: Vec<Log>,
    pub changes: EvmState,
}

/// The address of a contract that transaction `id` of `owner` deploys: Keccak-256 over both.
pub fn deployed_at(id: TxId, owner: Address) -> Address {
    hashed(&[&id.0, &owner.to_bytes()])
}

/// Runs on `state`, which stays as it is.
pub(crate) fn run(state: &State, environment: &BlockEnvironment, run: &Run<'_>) -> Result<Ran, Refusal> {
    let mut cfg = CfgEnv::new_with_spec(SPEC);
    cfg.chain_id = u64::from(environment.chain_id);
    cfg.disable_nonce_check = true;
    cfg.disable_base_fee = true;
    cfg.disable_block_gas_limit = true;
    cfg.disable_eip3607 = true;
    cfg.tx_gas_limit_cap = Some(u64::MAX);
    // The TVM has no limit of its own: a transaction's size and its energy are the limit.
    cfg.limit_contract_code_size = Some(usize::MAX);
    cfg.limit_contract_initcode_size = Some(usize::MAX);
    let block = BlockEnv {
        number: U256::from(environment.number),
        beneficiary: environment.witness.evm(),
        timestamp: U256::from(environment.time / 1000),
        gas_limit: u64::MAX,
        basefee: environment.energy_price_sun,
        difficulty: U256::ZERO,
        prevrandao: Some(B256::ZERO),
        ..BlockEnv::default()
    };
    let mut tx = TxEnv {
        caller: run.caller.evm(),
        kind: run.target.map_or(TxKind::Create, |target| TxKind::Call(target.evm())),
        value: U256::from(run.value),
        data: Bytes::copy_from_slice(run.data),
        gas_price: 0,
        chain_id: None,
        ..TxEnv::default()
    };
    // An EVM's transaction costs gas before its code runs; the TVM counts bandwidth for that instead.
    let before = calculate_initial_tx_gas_for_tx(&tx, SPEC, None).initial_total_gas();
    tx.gas_limit = run.energy_limit.saturating_add(before);
    let view = View { state, parents: &environment.parents, number: environment.number };
    let addresses = Addresses { id: run.id, owner: run.caller, depth: 0, inner: 0 };
    let context = Context::mainnet().with_db(WrapDatabaseRef(view)).with_block(block).with_cfg(cfg);
    let ran = context.build_mainnet_with_inspector(addresses).inspect_tx(tx);
    let ResultAndState { result, state: changes } = ran.map_err(|error| match error {
        EVMError::Transaction(error) => Refusal::contract(error.to_string()),
        other => Refusal::Other(other.to_string()),
    })?;
    let energy = |gas: u64| gas.saturating_sub(before).min(run.energy_limit);
    Ok(match result {
        ExecutionResult::Success { gas, logs, output, .. } => Ran {
            ending: Ending::Success,
            output: output.into_data(),
            energy: energy(gas.total_gas_spent()),
            logs,
            changes,
        },
        ExecutionResult::Revert { gas, output, .. } => {
            Ran { ending: Ending::Revert, output, energy: energy(gas.total_gas_spent()), logs: Vec::new(), changes }
        }
        ExecutionResult::Halt { reason, .. } => {
            let (name, words) = halted(&reason, run.energy_limit);
            let ending = Ending::Halt(name, words);
            Ran { ending, output: Bytes::new(), energy: run.energy_limit, logs: Vec::new(), changes }
        }
    })
}

fn halted(reason: &HaltReason, limit: u64) -> (&'static str, String) {
    match reason {
        HaltReason::OutOfGas(_) => {
            ("OUT_OF_ENERGY", format!("Not enough energy to go on: curInvokeEnergyLimit[{limit}], usedEnergy[{limit}]"))
        }
        HaltReason::OpcodeNotFound | HaltReason::InvalidFEOpcode | HaltReason::NotActivated => {
            ("ILLEGAL_OPERATION", "Invalid operation code".to_owned())
        }
        HaltReason::InvalidJump => ("BAD_JUMP_DESTINATION", "Operation with pc isn't 'JUMPDEST'".to_owned()),
        HaltReason::StackUnderflow => {
            ("STACK_TOO_SMALL", "Expected stack size is larger than the actual one".to_owned())
        }
        HaltReason::StackOverflow => ("STACK_TOO_LARGE", "Expected: Overflow 1024 elements stack limit".to_owned()),
        HaltReason::CreateContractStartingWithEF => {
            ("INVALID_CODE", "invalid code: must not begin with 0xef".to_owned())
        }
        HaltReason::OutOfFunds => ("TRANSFER_FAILED", "transfer trx failed: balance is not sufficient".to_owned()),
        other => ("UNKNOWN", format!("Unknown Exception: {other}")),
    }
}

/// Gives new contracts the addresses that the TVM gives them.
struct Addresses {
    id: TxId,
    owner: Address,
    depth: usize,
    /// Calls and deployments that contracts have made in this transaction.
    inner: u64,
}

impl Addresses {
    fn enter(&mut self) {
        if self.depth > 0 {
            self.inner += 1;
        }
        self.depth += 1;
    }
}

impl<CTX> Inspector<CTX> for Addresses {
    fn call(&mut self, _context: &mut CTX, _inputs: &mut CallInputs) -> Option<CallOutcome> {
        self.enter();
        None
    }

    fn call_end(&mut self, _context: &mut CTX, _inputs: &CallInputs, _outcome: &mut CallOutcome) {
        self.depth = self.depth.saturating_sub(1);
    }

    fn create(&mut self, _context: &mut CTX, inputs: &mut CreateInputs) -> Option<CreateOutcome> {
        let address = match inputs.scheme() {
            CreateScheme::Create if self.depth == 0 => deployed_at(self.id, self.owner),
            CreateScheme::Create => hashed(&[&self.id.0, &self.inner.to_be_bytes()]),
            CreateScheme::Create2 { salt } => {
                // Where the EVM has 0xff, the TVM has the first byte of the creator's address.
                let code = keccak256(inputs.init_code());
                hashed(&[&[PREFIX], inputs.caller().as_slice(), &salt.to_be_bytes::<32>(), code.as_slice()])
            }
            CreateScheme::Custom { address } => Address::from_evm(address),
        };
        inputs.set_scheme(CreateScheme::Custom { address: address.evm() });
        self.enter();
        None
    }

    fn create_end(&mut self, _context: &mut CTX, _inputs: &CreateInputs, _outcome: &mut CreateOutcome) {
        self.depth = self.depth.saturating_sub(1);
    }
}

fn hashed(parts: &[&[u8]]) -> Address {
    let hash = keccak256(parts.concat());
    Address::from_evm(EvmAddress::from_slice(&hash[12..]))
}
