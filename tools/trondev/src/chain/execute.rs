//! Execution of one transaction: its effects on accounts and its fee.

use std::sync::Arc;

use revm::primitives::Log;

use super::{
    resources::{self, Net},
    state::State,
    vm::{self, BlockEnvironment, Ending, Run},
};
use crate::{
    Address, Options, Refusal,
    options::SUN_PER_TRX,
    proto::SmartContract,
    transaction::{Call, Transaction},
};

/// Sun that a transfer burns for making its receiver's account.
const NEW_ACCOUNT_SUN: u64 = SUN_PER_TRX;

/// The outcome of a transaction, as in its receipt.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// `contractRet`: SUCCESS, REVERT, OUT_OF_ENERGY, …
    pub result: &'static str,
    /// The error, in words.
    pub words: Option<String>,
    /// Whether code ran.
    pub ran: bool,
    pub output: Vec<u8>,
    /// The contract called or deployed.
    pub contract: Option<Address>,
    pub logs: Vec<Log>,
    pub energy: u64,
    /// Sun.
    pub energy_fee: u64,
    pub net: Net,
    /// All that was burnt, in sun.
    pub fee: u64,
}

impl Outcome {
    pub fn succeeded(&self) -> bool {
        self.result == "SUCCESS"
    }
}

/// Runs `tx` on `state`. A refused transaction leaves it as it was; a failed one has paid.
pub(crate) fn execute(
    state: &mut State,
    options: &Options,
    environment: &BlockEnvironment,
    tx: &Transaction,
) -> Result<Outcome, Refusal> {
    let owner = tx.owner;
    let Some(before) = state.get(owner).cloned() else {
        return Err(Refusal::contract(format!("account [{owner}] does not exist")));
    };
    if before.is_contract() {
        return Err(Refusal::contract(format!("account [{owner}] is a contract and signs nothing")));
    }
    let outcome = charged(state, options, environment, tx);
    if outcome.is_err() {
        state.restore(owner, before);
    }
    outcome
}

fn charged(
    state: &mut State,
    options: &Options,
    environment: &BlockEnvironment,
    tx: &Transaction,
) -> Result<Outcome, Refusal> {
    let makes_account = matches!(tx.call, Call::Transfer { to, .. } if state.get(to).is_none());
    let account = state.entry(tx.owner, environment.time);
    let net = resources::take_bandwidth(account, options, environment.time, tx.bandwidth(), makes_account)?;
    let memo = if tx.raw.data.is_empty() { 0 } else { resources::MEMO_SUN };
    account.balance = account.balance.checked_sub(memo).ok_or(Refusal::Bandwidth)?;
    account.last_operation = environment.time;
    let burnt = net.fee + memo;
    match &tx.call {
        Call::Transfer { to, amount } => {
            let new_account = if makes_account { NEW_ACCOUNT_SUN } else { 0 };
            transfer(state, tx.owner, *to, *amount, new_account, environment.time)?;
            Ok(Outcome {
                result: "SUCCESS",
                words: None,
                ran: false,
                output: Vec::new(),
                contract: None,
                logs: Vec::new(),
                energy: 0,
                energy_fee: 0,
                net,
                fee: burnt + new_account,
            })
        }
        Call::Trigger { contract, value, data } => {
            if !state.get(*contract).is_some_and(|account| account.is_contract()) {
                return Err(Refusal::contract("No contract or not a smart contract"));
            }
            let call = Code { target: *contract, deploys: None, value: *value, data };
            code(state, options, environment, tx, call, (net, burnt))
        }
        Call::Create { contract } => {
            let target = vm::deployed_at(tx.id, tx.owner);
            check_deployment(contract)?;
            if state.get(target).is_some_and(|account| account.is_contract()) {
                let text = format!("Trying to create a contract with existing contract address: {target}");
                return Err(Refusal::contract(text));
            }
            let call = Code { target, deploys: Some(contract), value: contract.call_value, data: &contract.bytecode };
            code(state, options, environment, tx, call, (net, burnt))
        }
    }
}

fn transfer(
    state: &mut State,
    owner: Address,
    to: Address,
    amount: i64,
    new_account: u64,
    now: i64,
) -> Result<(), Refusal> {
    if owner == to {
        return Err(Refusal::contract("Cannot transfer TRX to yourself."));
    }
    let amount = u64::try_from(amount).unwrap_or_default();
    if amount == 0 {
        return Err(Refusal::contract("Amount must be greater than 0."));
    }
    if state.get(to).is_some_and(|account| account.is_contract()) {
        return Err(Refusal::contract("Cannot transfer TRX to a smartContract."));
    }
    let account = state.entry(owner, now);
    account.balance = amount
        .checked_add(new_account)
        .and_then(|sum| account.balance.checked_sub(sum))
        .ok_or_else(|| Refusal::contract("Validate TransferContract error, balance is not sufficient."))?;
    state.entry(to, now).balance += amount;
    Ok(())
}

/// Code to run.
struct Code<'a> {
    target: Address,
    deploys: Option<&'a SmartContract>,
    value: i64,
    data: &'a [u8],
}

fn code(
    state: &mut State,
    options: &Options,
    environment: &BlockEnvironment,
    tx: &Transaction,
    code: Code<'_>,
    (net, burnt): (Net, u64),
) -> Result<Outcome, Refusal> {
    let limit = u64::try_from(tx.raw.fee_limit).ok().filter(|limit| *limit <= options.fee_limit_max_sun);
    let limit = limit
        .ok_or_else(|| Refusal::contract(format!("feeLimit must be >= 0 and <= {}", options.fee_limit_max_sun)))?;
    let value = u64::try_from(code.value).map_err(|_| Refusal::contract("callValue must be >= 0"))?;
    let balance = state.get(tx.owner).map_or(0, |account| account.balance);
    let left = balance
        .checked_sub(value)
        .ok_or_else(|| Refusal::contract("Validate InternalTransfer error, balance is not sufficient."))?;
    let energy_limit = left.min(limit) / options.energy_price_sun.max(1);
    let run = Run {
        id: tx.id,
        caller: tx.owner,
        target: code.deploys.is_none().then_some(code.target),
        value,
        data: code.data,
        energy_limit,
    };
    let ran = vm::run(state, environment, &run)?;
    let (result, words) = match ran.ending {
        Ending::Success => ("SUCCESS", None),
        Ending::Revert => ("REVERT", Some("REVERT opcode executed".to_owned())),
        Ending::Halt(result, words) => (result, Some(words)),
    };
    if result == "SUCCESS" {
        state.apply(ran.changes, environment.time);
        if let Some(deployed) = code.deploys {
            let account = state.entry(code.target, environment.time);
            let mut contract = deployed.clone();
            contract.contract_address = code.target.to_bytes().to_vec();
            contract.trx_hash = tx.id.0.to_vec();
            contract.code_hash = account.code_hash.to_vec();
            account.contract = Some(Arc::new(contract));
        }
    }
    let energy_fee = ran.energy * options.energy_price_sun;
    let owner = state.entry(tx.owner, environment.time);
    // The limit leaves as much, and only the owner's own signature takes from its balance.
    owner.balance = owner.balance.checked_sub(energy_fee).ok_or(Refusal::Bandwidth)?;
    Ok(Outcome {
        result,
        words,
        ran: true,
        output: ran.output.to_vec(),
        contract: Some(code.target),
        logs: ran.logs,
        energy: ran.energy,
        energy_fee,
        net,
        fee: burnt + energy_fee,
    })
}

/// The rules for a deployment's settings.
pub(crate) fn check_deployment(contract: &SmartContract) -> Result<(), Refusal> {
    if contract.name.len() > 32 {
        return Err(Refusal::contract("contractName's length cannot be greater than 32"));
    }
    if !(0..=100).contains(&contract.consume_user_resource_percent) {
        return Err(Refusal::contract("percent must be >= 0 and <= 100"));
    }
    if contract.origin_energy_limit <= 0 {
        return Err(Refusal::contract("The originEnergyLimit must be > 0"));
    }
    Ok(())
}
