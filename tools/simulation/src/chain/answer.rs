//! Blocks, transactions, receipts and logs as JSON-RPC writes them.

use alloy::{
    consensus::Transaction,
    primitives::{Address, B256, Log, U64},
};
use serde_json::{Value, json};

use super::{
    RpcFault,
    block::{Block, Mined, Signed},
};

/// A block with its transactions' hashes, or the transactions in `full`.
pub(super) fn block(block: &Block, full: bool) -> Result<Value, RpcFault> {
    let mut answer = written(&block.header)?;
    answer["hash"] = json!(block.hash);
    answer["uncles"] = json!([]);
    answer["withdrawals"] = json!([]);
    answer["size"] = json!(U64::from(block.size()));
    answer["transactions"] = match full {
        true => {
            let all = block.transactions.iter().enumerate();
            let all: Result<Vec<Value>, RpcFault> =
                all.map(|(index, mined)| transaction(&mined.transaction, Some((block, index, mined)))).collect();
            Value::Array(all?)
        }
        false => block.transactions.iter().map(|mined| json!(mined.transaction.hash())).collect(),
    };
    Ok(answer)
}

/// A transaction, with its block and index when it is in a block.
pub(super) fn transaction(signed: &Signed, mined: Option<(&Block, usize, &Mined)>) -> Result<Value, RpcFault> {
    let mut answer = written(&signed.envelope)?;
    answer["hash"] = json!(signed.hash());
    answer["from"] = json!(signed.sender);
    answer["blockHash"] = json!(mined.map(|(block, ..)| block.hash));
    answer["blockNumber"] = json!(mined.map(|(block, ..)| U64::from(block.header.number)));
    answer["transactionIndex"] = json!(mined.map(|(_, index, _)| U64::from(index)));
    let price = mined.map_or_else(|| signed.envelope.max_fee_per_gas(), |(.., mined)| mined.gas_price);
    answer["gasPrice"] = json!(quantity(price));
    Ok(answer)
}

/// What a transaction in a block did.
pub(super) fn receipt(block: &Block, index: usize, mined: &Mined) -> Value {
    let envelope = &mined.transaction.envelope;
    json!({
        "type": U64::from(u8::from(envelope.tx_type())),
        "status": U64::from(mined.success),
        "transactionHash": mined.transaction.hash(),
        "transactionIndex": U64::from(index),
        "blockHash": block.hash,
        "blockNumber": U64::from(block.header.number),
        "from": mined.transaction.sender,
        "to": envelope.to(),
        "contractAddress": mined.created,
        "gasUsed": U64::from(mined.gas_used),
        "cumulativeGasUsed": U64::from(mined.cumulative_gas_used),
        "effectiveGasPrice": quantity(mined.gas_price),
        "logsBloom": mined.bloom(),
        "logs": logs_of(block, index, mined, |_| true),
    })
}

/// The logs of `block` that `wanted` wants.
pub(super) fn logs(block: &Block, wanted: impl Fn(&Log) -> bool) -> Vec<Value> {
    let all = block.transactions.iter().enumerate();
    all.flat_map(|(index, mined)| logs_of(block, index, mined, &wanted)).collect()
}

fn logs_of(block: &Block, index: usize, mined: &Mined, wanted: impl Fn(&Log) -> bool) -> Vec<Value> {
    let before: usize = block.transactions[..index].iter().map(|mined| mined.logs.len()).sum();
    let logs = mined.logs.iter().enumerate().filter(|(_, log)| wanted(log));
    logs.map(|(offset, log)| {
        json!({
            "address": log.address,
            "topics": log.data.topics(),
            "data": log.data.data,
            "blockHash": block.hash,
            "blockNumber": U64::from(block.header.number),
            "blockTimestamp": U64::from(block.header.timestamp),
            "transactionHash": mined.transaction.hash(),
            "transactionIndex": U64::from(index),
            "logIndex": U64::from(before + offset),
            "removed": false,
        })
    })
    .collect()
}

/// A number as JSON-RPC writes it.
pub(super) fn quantity(number: u128) -> String {
    format!("{number:#x}")
}

fn written(value: &impl serde::Serialize) -> Result<Value, RpcFault> {
    serde_json::to_value(value).map_err(|error| RpcFault::refused(error.to_string()))
}

/// What `eth_getLogs` asks for, besides the place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogFilter {
    addresses: Vec<Address>,
    topics: Vec<Vec<B256>>,
}

impl LogFilter {
    /// The filter in the parameter `filter`; what is not named is not filtered.
    pub fn parse(filter: &Value) -> Result<Self, RpcFault> {
        let topics = match &filter["topics"] {
            Value::Null => Vec::new(),
            Value::Array(places) => places.iter().map(one_or_many).collect::<Result<_, _>>()?,
            _ => return Err(RpcFault::parameters("invalid argument: topics is not a list")),
        };
        Ok(Self { addresses: one_or_many(&filter["address"])?, topics })
    }

    /// Whether `log` is asked for.
    pub fn matches(&self, log: &Log) -> bool {
        let topics = log.data.topics();
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= topics.len()
            && self.topics.iter().zip(topics).all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }
}

fn one_or_many<T: serde::de::DeserializeOwned>(value: &Value) -> Result<Vec<T>, RpcFault> {
    let parsed = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(_) => serde_json::from_value(value.clone()),
        one => serde_json::from_value(one.clone()).map(|one| vec![one]),
    };
    parsed.map_err(|error| RpcFault::parameters(format!("invalid argument: {error}")))
}
