//! Queries about contracts: calls and creations that are only tried out, and their code.

use alloy::primitives::Address;
use serde::Deserialize;
use serde_json::{Value, json};

use escrow_abi::revert::Revert;

use super::{Answer, FAILED, State, answers::RawCall, unhex, unreadable, words};
use crate::{
    address,
    nodes::Nodes,
    rpc::{Fault, shortened},
};

/// The VM's exceptions in a node's words; the one that tells of a slow node is not among the contract's faults.
const PROGRAM_EXCEPTION: &str = "vm.program.Program$";
const OUT_OF_TIME: &str = "OutOfTimeException";

/// A call that is only tried out.
pub(crate) struct Trial<'a> {
    pub from: Option<Address>,
    pub to: Address,
    pub data: &'a [u8],
    pub value_sun: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Tried {
    Answered(Answer<Vec<u8>>),
    /// The node says that it cannot succeed, but no contract said so: there is none, the funds are short, or the VM gave up.
    Impossible(String),
}

/// The code of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContractCode {
    /// What runs when it is called.
    pub runtime: Vec<u8>,
    /// What made it, with the constructor's arguments; nothing where no transaction did, but another contract.
    pub creation: Vec<u8>,
}

#[derive(Deserialize)]
struct RawContract {
    #[serde(default, rename = "runtimecode")]
    runtime: String,
    smart_contract: Option<RawSmartContract>,
}

#[derive(Deserialize)]
struct RawSmartContract {
    contract_address: Option<String>,
    #[serde(default)]
    bytecode: String,
}

impl Nodes {
    /// Tries a call out in the newest or the solidified state.
    pub async fn constant(&self, trial: &Trial<'_>, state: State) -> Result<Tried, Fault> {
        let asked = json!({
            // Nobody is the zero address, which a node wants to be written out.
            "owner_address": address::api(trial.from.unwrap_or_default()),
            "contract_address": address::api(trial.to),
            "data": hex::encode(trial.data),
            "call_value": trial.value_sun,
            "visible": false,
        });
        self.tried(&asked, state).await
    }

    async fn tried(&self, asked: &Value, state: State) -> Result<Tried, Fault> {
        let answer: RawCall = self.read(&state.path("triggerconstantcontract"), asked).await?;
        let message = words(&answer.result.message);
        if !answer.result.result {
            let code = answer.result.code.as_deref().unwrap_or_default();
            let said = format!("{code}: {}", shortened(&message));
            let of_contract = message.contains(PROGRAM_EXCEPTION) && !message.contains(OUT_OF_TIME);
            if of_contract || matches!(code, "CONTRACT_VALIDATE_ERROR" | "CONTRACT_EXE_ERROR") {
                return Ok(Tried::Impossible(said));
            }
            return Err(Fault::Rejected(said));
        }
        let output = answer.constant_result.first().map(|text| unhex(text)).transpose()?;
        let output = output.ok_or_else(|| unreadable("a call without a result"))?;
        let failed = answer.transaction.is_some_and(|shown| shown.ret.iter().any(|ret| ret.ret == FAILED));
        Ok(Tried::Answered(if failed || message.contains("REVERT") {
            let revert = Revert::new(output.into(), "the contract reverted");
            Answer::Reverted { reason: revert.reason, data: revert.data.into() }
        } else {
            Answer::Returned { value: output, energy: answer.energy_used }
        }))
    }

    /// Tries out the creation of a contract by `owner` in the newest state.
    pub async fn constant_creation(&self, owner: Address, creation: &[u8]) -> Result<Tried, Fault> {
        let asked = json!({
            "owner_address": address::api(owner),
            "data": hex::encode(creation),
            "visible": false,
        });
        self.tried(&asked, State::Newest).await
    }

    /// The code at an address in the newest state; `None` where there is no contract.
    pub async fn contract_code(&self, contract: Address) -> Result<Option<ContractCode>, Fault> {
        let asked = json!({"value": address::api(contract), "visible": false});
        let answer: RawContract = self.read("wallet/getcontractinfo", &asked).await?;
        let Some(found) = answer.smart_contract else { return Ok(None) };
        if found.contract_address.is_some_and(|found| address::from_api(&found) != Some(contract)) {
            return Err(unreadable("another contract than was asked for"));
        }
        Ok(Some(ContractCode { runtime: unhex(&answer.runtime)?, creation: unhex(&found.bytecode)? }))
    }
}
