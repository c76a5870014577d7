//! Transactions as clients write them in JSON. What counts is `raw_data`, which is encoded again: the id and the bytes in hex
//! beside it are for people.

use prost::Message;
use serde_json::{Map, Value};

use super::{
    abi,
    request::{ApiError, address, number, unhex},
};
use crate::{
    Refusal,
    proto::{self, CreateSmartContract, Raw, SmartContract, TransferContract, TriggerSmartContract},
    transaction::{CREATE, TRANSFER, TRIGGER, Transaction, envelope},
};

/// Why no transaction was read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The JSON is not what it should be.
    #[error(transparent)]
    Field(#[from] ApiError),
    /// It is a transaction that is not taken.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Field(error) => error,
            ReadError::Refused(refusal) => refusal.into(),
        }
    }
}

/// Reads a transaction, signed or not.
pub(super) fn transaction(fields: &Map<String, Value>, visible: bool) -> Result<Transaction, ReadError> {
    let raw =
        fields.get("raw_data").and_then(Value::as_object).ok_or_else(|| ApiError::field("raw_data", "is needed"))?;
    let signature = match fields.get("signature") {
        None | Some(Value::Null) => Vec::new(),
        Some(list) => list
            .as_array()
            .ok_or_else(|| ApiError::field("signature", "a list is needed"))?
            .iter()
            .map(|one| unhex("signature", one.as_str().unwrap_or_default()))
            .collect::<Result<_, _>>()?,
    };
    let contracts = raw.get("contract").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let contract = contracts.iter().map(|one| read_contract(one, visible)).collect::<Result<_, _>>()?;
    let memo = text(raw, "data");
    let message = proto::Transaction {
        raw_data: Some(Raw {
            ref_block_bytes: hex_field(raw, "ref_block_bytes")?,
            ref_block_num: number(raw, "ref_block_num")?.unwrap_or_default(),
            ref_block_hash: hex_field(raw, "ref_block_hash")?,
            expiration: number(raw, "expiration")?.unwrap_or_default(),
            data: if visible { memo.as_bytes().to_vec() } else { unhex("data", memo)? },
            contract,
            scripts: hex_field(raw, "scripts")?,
            timestamp: number(raw, "timestamp")?.unwrap_or_default(),
            fee_limit: number(raw, "fee_limit")?.unwrap_or_default(),
        }),
        signature,
    };
    Ok(Transaction::from_message(message)?)
}

fn read_contract(value: &Value, visible: bool) -> Result<proto::Contract, ReadError> {
    let object = value.as_object().ok_or_else(|| ApiError::field("contract", "an object is needed"))?;
    let fields = object
        .get("parameter")
        .and_then(|parameter| parameter.get("value"))
        .and_then(Value::as_object)
        .ok_or_else(|| ApiError::field("contract", "parameter.value is needed"))?;
    let permission = number(object, "Permission_id")?.unwrap_or_default();
    let permission =
        i32::try_from(permission).map_err(|_| ApiError::field("Permission_id", "a number of 32 bits is needed"))?;
    let owner_address = address_field(fields, "owner_address", visible)?;
    let contract = match text(object, "type") {
        "TransferContract" => {
            let to_address = address_field(fields, "to_address", visible)?;
            let amount = number(fields, "amount")?.unwrap_or_default();
            envelope(TRANSFER, &TransferContract { owner_address, to_address, amount }, permission)
        }
        "TriggerSmartContract" => {
            let message = TriggerSmartContract {
                owner_address,
                contract_address: address_field(fields, "contract_address", visible)?,
                call_value: number(fields, "call_value")?.unwrap_or_default(),
                data: hex_field(fields, "data")?,
                call_token_value: number(fields, "call_token_value")?.unwrap_or_default(),
                token_id: number(fields, "token_id")?.unwrap_or_default(),
            };
            envelope(TRIGGER, &message, permission)
        }
        "CreateSmartContract" => {
            let new = fields.get("new_contract").and_then(Value::as_object);
            let message = CreateSmartContract {
                owner_address,
                new_contract: new.map(|new| smart_contract(new, visible)).transpose()?,
                call_token_value: number(fields, "call_token_value")?.unwrap_or_default(),
                token_id: number(fields, "token_id")?.unwrap_or_default(),
            };
            envelope(CREATE, &message, permission)
        }
        other => {
            let text = format!("{other} is not supported by this development node");
            return Err(Refusal::contract(text).into());
        }
    };
    Ok(contract)
}

fn smart_contract(fields: &Map<String, Value>, visible: bool) -> Result<SmartContract, ApiError> {
    Ok(SmartContract {
        origin_address: address_field(fields, "origin_address", visible)?,
        contract_address: address_field(fields, "contract_address", visible)?,
        abi: fields.get("abi").map(abi::read).transpose()?,
        bytecode: hex_field(fields, "bytecode")?,
        call_value: number(fields, "call_value")?.unwrap_or_default(),
        consume_user_resource_percent: number(fields, "consume_user_resource_percent")?.unwrap_or_default(),
        name: text(fields, "name").to_owned(),
        origin_energy_limit: number(fields, "origin_energy_limit")?.unwrap_or_default(),
        ..Default::default()
    })
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn hex_field(fields: &Map<String, Value>, name: &str) -> Result<Vec<u8>, ApiError> {
    unhex(name, text(fields, name))
}

fn address_field(fields: &Map<String, Value>, name: &str, visible: bool) -> Result<Vec<u8>, ApiError> {
    match text(fields, name) {
        "" => Ok(Vec::new()),
        text => {
            let read = address(text, visible).map_err(|error| ApiError::field(name, error))?;
            Ok(read.to_bytes().to_vec())
        }
    }
}

/// Puts an unsigned transaction around a contract's message.
pub(super) fn unsigned(
    kind: i32,
    message: &impl Message,
    permission: i32,
    header: Raw,
) -> Result<Transaction, Refusal> {
    let raw = Raw { contract: vec![envelope(kind, message, permission)], ..header };
    Transaction::from_message(proto::Transaction { raw_data: Some(raw), signature: Vec::new() })
}
