//! API methods about contracts.

use revm::primitives::keccak256;
use serde_json::{Value, json};

use super::{
    Shared, abi, lock, read,
    request::{ApiError, Request},
    shape::{self, Object},
    transactions,
};
use crate::{
    Address, Refusal,
    chain::{Answer, Chain, Ending, check_deployment},
    deployed_at,
    proto::{Abi, CreateSmartContract, Raw, SmartContract, TriggerSmartContract},
    transaction::{CREATE, TRIGGER, Transaction},
};

/// Who asks where nobody is named.
const NOBODY: Address = Address::from_evm(revm::primitives::Address::ZERO);
const REVERTED: &str = "REVERT opcode executed";

/// What is to be called, and with what.
struct Asked {
    owner: Address,
    /// None for a deployment.
    contract: Option<Address>,
    value: i64,
    data: Vec<u8>,
}

fn asked(request: &Request) -> Result<Asked, ApiError> {
    if request.number("call_token_value")?.unwrap_or_default() != 0
        || request.number("token_id")?.unwrap_or_default() != 0
    {
        return Err(ApiError::new("TRC-10 tokens are not supported by this development node"));
    }
    let data = match request.text("function_selector") {
        Some(signature) => {
            let mut data = keccak256(signature)[..4].to_vec();
            data.extend(request.bytes("parameter")?.unwrap_or_default());
            data
        }
        None => request.bytes("data")?.unwrap_or_default(),
    };
    Ok(Asked {
        owner: request.address("owner_address")?.unwrap_or(NOBODY),
        contract: request.address("contract_address")?,
        value: request.number("call_value")?.unwrap_or_default(),
        data,
    })
}

/// The transaction that would ask for it.
fn built(asked: &Asked, permission: i32, header: Raw) -> Result<Transaction, Refusal> {
    let owner_address = asked.owner.to_bytes().to_vec();
    match asked.contract {
        Some(contract) => {
            let message = TriggerSmartContract {
                owner_address,
                contract_address: contract.to_bytes().to_vec(),
                call_value: asked.value,
                data: asked.data.clone(),
                ..Default::default()
            };
            read::unsigned(TRIGGER, &message, permission, header)
        }
        None => {
            let contract = SmartContract {
                origin_address: owner_address.clone(),
                bytecode: asked.data.clone(),
                call_value: asked.value,
                ..Default::default()
            };
            let message = CreateSmartContract { owner_address, new_contract: Some(contract), ..Default::default() };
            read::unsigned(CREATE, &message, permission, header)
        }
    }
}

/// `triggersmartcontract`: the transaction to sign; the answer itself where the ABI says that nothing changes.
pub(super) fn trigger(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let asked = asked(request)?;
    let contract = asked.contract.ok_or_else(|| ApiError::field("contract_address", "an address is needed"))?;
    let known = {
        let chain = lock(chain);
        chain.state(request.view).get(contract).filter(|account| account.is_contract()).cloned()
    };
    let Some(known) = known else {
        return Ok(failed(&Refusal::contract("No contract or not a valid smart contract"), request.visible));
    };
    let constant = known.contract.as_ref().and_then(|contract| contract.abi.as_ref());
    if let (Some(abi), Some(selector)) = (constant, asked.data.get(..4))
        && abi::is_constant(abi, selector)
    {
        return Ok(answered(chain, request, &asked));
    }
    let fee_limit = request.number("fee_limit")?.unwrap_or_default();
    let permission = transactions::permission(request)?;
    let transaction = built(&asked, permission, transactions::header(&lock(chain), fee_limit, Vec::new()));
    Ok(match transaction {
        Ok(transaction) => json!({
            "result": { "result": true },
            "transaction": transactions::unsigned(&transaction, request.visible).value(),
        }),
        Err(refusal) => failed(&refusal, request.visible),
    })
}

/// `triggerconstantcontract`: what a call returns. Whatever it changes is forgotten.
pub(super) fn trigger_constant(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let asked = asked(request)?;
    Ok(answered(chain, request, &asked))
}

fn answered(chain: &Shared, request: &Request, asked: &Asked) -> Value {
    let (transaction, answer) = match ask(chain, request, asked) {
        Ok(answer) => answer,
        Err(refusal) => return failed(&refusal, request.visible),
    };
    let mut result = Object::default().put("result", true);
    let mut ret = Object::default();
    match &answer.ending {
        Ending::Success => {}
        Ending::Revert => {
            result = result.put("message", shape::words(REVERTED, request.visible));
            ret = ret.put("ret", "FAILED");
        }
        Ending::Halt(_, words) => return failed(&Refusal::Other(words.clone()), request.visible),
    }
    let logs: Vec<Value> = answer.logs.iter().map(|log| shape::log(log, request.visible)).collect();
    let shown = transactions::unsigned(&transaction, request.visible).put("ret", vec![ret.value()]);
    let object = Object::default()
        .put("result", result.value())
        .number("energy_used", answer.energy)
        .put("constant_result", vec![hex::encode(&answer.output)])
        .put("transaction", shown.value());
    if logs.is_empty() { object.value() } else { object.put("logs", logs).value() }
}

/// `estimateenergy`: what a call would take.
pub(super) fn estimate(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let asked = asked(request)?;
    Ok(match ask(chain, request, &asked).map(|(_, answer)| answer) {
        Ok(Answer { ending: Ending::Success, energy, .. }) => {
            json!({ "result": { "result": true }, "energy_required": energy })
        }
        Ok(Answer { ending, .. }) => {
            let words = match ending {
                Ending::Halt(_, words) => words,
                Ending::Success | Ending::Revert => REVERTED.to_owned(),
            };
            json!({ "result": { "code": "CONTRACT_EXE_ERROR", "message": shape::words(&words, request.visible) } })
        }
        Err(refusal) => failed(&refusal, request.visible),
    })
}

/// Runs it apart from the chain, which goes on meanwhile.
fn ask(chain: &Shared, request: &Request, asked: &Asked) -> Result<(Transaction, Answer), Refusal> {
    let value = u64::try_from(asked.value).map_err(|_| Refusal::contract("callValue must be >= 0"))?;
    let (constant_call, header) = {
        let chain = lock(chain);
        (chain.constant_call(request.view), transactions::header(&chain, 0, Vec::new()))
    };
    let transaction = built(asked, 0, header)?;
    let answer = constant_call.ask(transaction.id, asked.owner, asked.contract, value, &asked.data)?;
    Ok((transaction, answer))
}

fn failed(refusal: &Refusal, visible: bool) -> Value {
    json!({ "result": { "code": refusal.code(), "message": shape::words(&refusal.to_string(), visible) } })
}

/// `deploycontract`: the transaction to sign, and where the contract will be.
pub(super) fn deploy(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    let owner = request.required_address("owner_address")?;
    let written = match request.fields().get("abi") {
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| ApiError::field("abi", error))?,
        Some(other) => other.clone(),
        None => json!([]),
    };
    let mut bytecode = request.bytes("bytecode")?.unwrap_or_default();
    bytecode.extend(request.bytes("parameter")?.unwrap_or_default());
    let contract = SmartContract {
        origin_address: owner.to_bytes().to_vec(),
        abi: Some(abi::read(&written)?),
        bytecode,
        call_value: request.number("call_value")?.unwrap_or_default(),
        consume_user_resource_percent: request.number("consume_user_resource_percent")?.unwrap_or_default(),
        name: request.text("name").unwrap_or_default().to_owned(),
        origin_energy_limit: request.number("origin_energy_limit")?.unwrap_or_default(),
        ..Default::default()
    };
    check_deployment(&contract)?;
    let message = CreateSmartContract {
        owner_address: owner.to_bytes().to_vec(),
        new_contract: Some(contract),
        call_token_value: request.number("call_token_value")?.unwrap_or_default(),
        token_id: request.number("token_id")?.unwrap_or_default(),
    };
    let fee_limit = request.number("fee_limit")?.unwrap_or_default();
    let header = transactions::header(&lock(chain), fee_limit, Vec::new());
    let transaction = read::unsigned(CREATE, &message, transactions::permission(request)?, header)?;
    let at = deployed_at(transaction.id, owner);
    let shown = transactions::unsigned(&transaction, request.visible);
    Ok(shown.put("contract_address", shape::address(at, request.visible)).value())
}

/// The most that a deployment within this process may burn, in sun.
const DEPLOYMENT_FEE_LIMIT: i64 = 5_000_000_000;
/// Energy of the owner's that one call of such a contract may take.
const DEPLOYMENT_ENERGY_LIMIT: i64 = 10_000_000;

/// The deployment of `code` by `owner`, to be signed.
///
/// # Errors
/// When it is none that could be taken.
pub(crate) fn deployment(chain: &Chain, owner: Address, name: &str, code: Vec<u8>) -> Result<Transaction, Refusal> {
    let contract = SmartContract {
        origin_address: owner.to_bytes().to_vec(),
        abi: Some(Abi::default()),
        bytecode: code,
        consume_user_resource_percent: 100,
        name: name.to_owned(),
        origin_energy_limit: DEPLOYMENT_ENERGY_LIMIT,
        ..Default::default()
    };
    let message = CreateSmartContract {
        owner_address: owner.to_bytes().to_vec(),
        new_contract: Some(contract),
        ..Default::default()
    };
    read::unsigned(CREATE, &message, 0, transactions::header(chain, DEPLOYMENT_FEE_LIMIT, Vec::new()))
}

fn found(chain: &Shared, request: &Request) -> Result<Option<(Value, String)>, ApiError> {
    let address = request.required_address("value")?;
    let account = lock(chain).state(request.view).get(address).cloned();
    Ok(account.filter(|account| account.is_contract()).map(|account| {
        // A contract that another contract made has no deployment of its own.
        let made = || SmartContract {
            contract_address: address.to_bytes().to_vec(),
            code_hash: account.code_hash.to_vec(),
            ..Default::default()
        };
        let contract = account.contract.as_deref().cloned().unwrap_or_else(made);
        (shape::smart_contract(&contract, request.visible), hex::encode(account.code.original_bytes()))
    }))
}

pub(super) fn contract(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    Ok(found(chain, request)?.map_or_else(|| json!({}), |(contract, _)| contract))
}

pub(super) fn contract_info(chain: &Shared, request: &Request) -> Result<Value, ApiError> {
    Ok(found(chain, request)?
        .map_or_else(|| json!({}), |(contract, code)| json!({ "smart_contract": contract, "runtimecode": code })))
}
