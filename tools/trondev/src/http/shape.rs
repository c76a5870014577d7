//! Transactions, receipts and blocks as Tron's API writes them: names of the protocol, what is zero or empty left out, bytes
//! in hex.

use serde_json::{Map, Value, json};

use super::abi;
use crate::{
    Address,
    chain::{Block, Included, Outcome},
    proto::{Raw, SmartContract},
    transaction::{Call, Transaction, type_name},
};

/// An object that takes only what is not zero or empty.
#[derive(Debug, Default)]
pub(super) struct Object(Map<String, Value>);

impl Object {
    pub fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub fn number(self, name: &str, value: impl Into<i128>) -> Self {
        let value: i128 = value.into();
        match i64::try_from(value) {
            Ok(0) => self,
            Ok(value) => self.put(name, value),
            Err(_) => self.put(name, u64::try_from(value).unwrap_or(u64::MAX)),
        }
    }

    pub fn bytes(self, name: &str, value: &[u8]) -> Self {
        if value.is_empty() { self } else { self.put(name, hex::encode(value)) }
    }

    pub fn text(self, name: &str, value: &str) -> Self {
        if value.is_empty() { self } else { self.put(name, value) }
    }

    pub fn value(self) -> Value {
        Value::Object(self.0)
    }
}

/// An address as `visible` has it.
pub(super) fn address(address: Address, visible: bool) -> String {
    if visible { address.to_base58() } else { address.to_hex() }
}

/// Words as `visible` has them.
pub(super) fn words(text: &str, visible: bool) -> String {
    if visible { text.to_owned() } else { hex::encode(text) }
}

/// The signed content.
pub(super) fn raw(transaction: &Transaction, visible: bool) -> Value {
    let raw: &Raw = &transaction.raw;
    let owner = address(transaction.owner, visible);
    let value = match &transaction.call {
        Call::Transfer { to, amount } => Object::default()
            .put("owner_address", owner)
            .put("to_address", address(*to, visible))
            .number("amount", *amount),
        Call::Trigger { contract, value, data } => Object::default()
            .put("owner_address", owner)
            .put("contract_address", address(*contract, visible))
            .bytes("data", data)
            .number("call_value", *value),
        Call::Create { contract } => {
            Object::default().put("owner_address", owner).put("new_contract", smart_contract(contract, visible))
        }
    };
    let (kind, permission) = raw.contract.first().map_or((0, 0), |contract| (contract.r#type, contract.permission_id));
    let name = type_name(kind).unwrap_or_default();
    let contract = Object::default()
        .put("parameter", json!({ "value": value.value(), "type_url": format!("type.googleapis.com/protocol.{name}") }))
        .put("type", name)
        .number("Permission_id", permission);
    let memo = String::from_utf8(raw.data.clone()).ok().filter(|_| visible);
    Object::default()
        .put("contract", vec![contract.value()])
        .bytes("ref_block_bytes", &raw.ref_block_bytes)
        .bytes("ref_block_hash", &raw.ref_block_hash)
        .number("ref_block_num", raw.ref_block_num)
        .number("expiration", raw.expiration)
        .text("data", &memo.unwrap_or_else(|| hex::encode(&raw.data)))
        .bytes("scripts", &raw.scripts)
        .number("timestamp", raw.timestamp)
        .number("fee_limit", raw.fee_limit)
        .value()
}

/// What a deployment says.
pub(super) fn smart_contract(contract: &SmartContract, visible: bool) -> Value {
    let shown = |bytes: &[u8]| Address::from_bytes(bytes).map(|read| address(read, visible)).unwrap_or_default();
    let object = Object::default()
        .text("origin_address", &shown(&contract.origin_address))
        .text("contract_address", &shown(&contract.contract_address))
        .bytes("bytecode", &contract.bytecode)
        .number("call_value", contract.call_value)
        .number("consume_user_resource_percent", contract.consume_user_resource_percent)
        .text("name", &contract.name)
        .number("origin_energy_limit", contract.origin_energy_limit)
        .bytes("code_hash", &contract.code_hash)
        .bytes("trx_hash", &contract.trx_hash)
        .number("version", contract.version);
    match &contract.abi {
        Some(written) => object.put("abi", abi::write(written)).value(),
        None => object.value(),
    }
}

/// A transaction with its signatures.
pub(super) fn transaction(transaction: &Transaction, visible: bool) -> Object {
    use prost::Message;

    let signatures: Vec<String> = transaction.signatures.iter().map(hex::encode).collect();
    let object = Object::default()
        .put("txID", transaction.id.to_string())
        .put("raw_data", raw(transaction, visible))
        .put("raw_data_hex", hex::encode(transaction.raw.encode_to_vec()));
    if signatures.is_empty() { object } else { object.put("signature", signatures) }
}

/// A transaction in a block.
pub(super) fn included(one: &Included, visible: bool) -> Value {
    transaction(&one.transaction, visible).put("ret", json!([{ "contractRet": one.outcome.result }])).value()
}

/// The outcome of a transaction in a block.
pub(super) fn info(block: &Block, one: &Included, visible: bool) -> Value {
    let outcome: &Outcome = &one.outcome;
    let receipt = Object::default()
        .number("energy_fee", outcome.energy_fee)
        .number("energy_usage_total", outcome.energy)
        .number("net_usage", outcome.net.usage)
        .number("net_fee", outcome.net.fee)
        .text("result", if outcome.ran { outcome.result } else { "" });
    let logs: Vec<Value> = outcome.logs.iter().map(|one| log(one, visible)).collect();
    let mut object = Object::default()
        .put("id", one.transaction.id.to_string())
        .number("fee", outcome.fee)
        .number("blockNumber", block.number())
        .number("blockTimeStamp", block.time())
        .put("contractResult", vec![hex::encode(&outcome.output)])
        .put("receipt", receipt.value());
    if let Some(contract) = outcome.contract {
        object = object.put("contract_address", address(contract, visible));
    }
    if !outcome.succeeded() {
        object = object.put("result", "FAILED");
    }
    if let Some(text) = &outcome.words {
        object = object.put("resMessage", words(text, visible));
    }
    if logs.is_empty() { object.value() } else { object.put("log", logs).value() }
}

/// A log. Its address has twenty bytes where the rest of the API has twenty-one.
pub(super) fn log(log: &revm::primitives::Log, visible: bool) -> Value {
    let at = if visible { Address::from_evm(log.address).to_base58() } else { hex::encode(log.address) };
    let topics: Vec<String> = log.data.topics().iter().map(hex::encode).collect();
    Object::default().put("address", at).put("topics", topics).bytes("data", &log.data.data).value()
}

/// A block, or its header only.
pub(super) fn block(block: &Block, detail: bool, visible: bool) -> Value {
    let header = Object::default()
        .number("number", block.number())
        .bytes("txTrieRoot", &block.header.tx_trie_root)
        .put("witness_address", address(block.witness, visible))
        .bytes("parentHash", &block.header.parent_hash)
        .number("version", block.header.version)
        .number("timestamp", block.time());
    let header = Object::default().put("raw_data", header.value()).bytes("witness_signature", &block.signature);
    let object = Object::default().put("blockID", block.id.to_string()).put("block_header", header.value());
    if !detail || block.transactions.is_empty() {
        return object.value();
    }
    let transactions: Vec<Value> = block.transactions.iter().map(|one| included(one, visible)).collect();
    object.put("transactions", transactions).value()
}

/// Writes numbers of 64 bits as strings, for clients whose numbers are floating.
pub(super) fn numbers_to_strings(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                // The protocol has these in 32 bits.
                if value.is_number() && !matches!(name.as_str(), "version" | "Permission_id" | "id") {
                    *value = Value::String(value.to_string());
                } else {
                    numbers_to_strings(value);
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(numbers_to_strings),
        _ => {}
    }
}
