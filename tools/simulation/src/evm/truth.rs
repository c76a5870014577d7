//! What is so on the chain, past all nodes.

use std::collections::BTreeMap;

use alloy::{
    primitives::{Address, B256, Bytes},
    sol_types::SolEvent,
};
use serde_json::{Value, json};

use escrow_abi::contracts::{FulfillmentProxy, word};
use events::{
    Hash32, PaymentId,
    event::{Inclusion, TransactionPrepared},
};

use super::{EvmWorld, known};
use crate::{
    chain::{self, NodeKind, PaymentChange},
    family::{Change, Delivered, Happened, Holdings, SolidityChain, Waits, cancelled_by},
};

fn number(value: &Value, member: &str) -> Option<u64> {
    u64::from_str_radix(value.get(member)?.as_str()?.trim_start_matches("0x"), 16).ok()
}

fn decode(log: &Value) -> Option<FulfillmentProxy::Fulfilled> {
    let topics = log.get("topics")?.as_array()?.iter().filter_map(|topic| topic.as_str()?.parse().ok());
    let data: Bytes = log.get("data")?.as_str()?.parse().ok()?;
    FulfillmentProxy::Fulfilled::decode_raw_log(topics.collect::<Vec<B256>>(), &data).ok()
}

impl EvmWorld {
    /// The answer of an honest node, without any fault.
    pub(super) fn ask(&self, method: &str, params: Value) -> Value {
        self.lock().rpc(&NodeKind::Honest, method, &params).unwrap_or(Value::Null)
    }

    pub(super) fn held(&self) -> Holdings {
        let chain = self.lock();
        let token = self.contracts.tokens[0];
        let mut balances = chain.token_balances(token);
        let escrow = balances.remove(&self.contracts.escrow).unwrap_or_default();
        // What is at nobody's address shows in the supply alone.
        let accounts = balances.into_iter().filter(|(account, _)| !account.is_zero());
        let accounts: BTreeMap<_, _> = accounts.map(|(account, amount)| (known(account), amount)).collect();
        Holdings { accounts, escrow, supply: chain.token_supply(token) }
    }

    pub(super) fn happened(&self, is_new: &mut dyn FnMut(Hash32) -> bool) -> Vec<Happened> {
        let changes = self.lock().changes(|block| is_new(Hash32(block.0)));
        changes.into_iter().map(|change| self.read(&change)).collect()
    }

    fn read(&self, happened: &PaymentChange) -> Happened {
        let input = Some(&happened.input).filter(|_| happened.to == Some(self.contracts.escrow));
        let change = match &happened.change {
            chain::Change::Reassigned => Change::Reassigned(input.and_then(|input| Self::reassigned_by(input))),
            chain::Change::Released => Change::Released(input.and_then(|input| Self::released_by(input))),
            chain::Change::Refunded => Change::Refunded(input.and_then(|input| cancelled_by(input))),
            chain::Change::Delivered(event) => Change::Delivered(self.delivery_of(event)),
        };
        Happened {
            payment: Hash32(happened.payment_id.0),
            change,
            transaction: happened.transaction.to_string(),
            time: happened.time,
        }
    }

    pub(super) fn delivered(&self, payment_id: &PaymentId) -> Vec<(u64, Delivered)> {
        let filter = json!([{
            "address": self.contracts.proxy,
            "topics": [FulfillmentProxy::Fulfilled::SIGNATURE_HASH, word(payment_id.on_chain())],
            "fromBlock": "0x0",
            "toBlock": "latest",
        }]);
        let logs = self.ask("eth_getLogs", filter);
        let logs = logs.as_array().map(Vec::as_slice).unwrap_or_default();
        logs.iter().filter_map(|log| Some((number(log, "blockNumber")?, self.delivery_of(&decode(log)?)))).collect()
    }

    pub(super) fn includes(&self, inclusion: &Inclusion) -> Result<(), String> {
        let settled = self.lock().finalized().number;
        let receipt = self.ask("eth_getTransactionReceipt", json!([inclusion.transaction_hash]));
        let holds = receipt.get("blockHash").and_then(Value::as_str) == Some(inclusion.block_hash.as_str())
            && number(&receipt, "blockNumber") == Some(inclusion.block_number)
            && number(&receipt, "status") == Some(1)
            && inclusion.block_number <= settled;
        let found = || receipt.get("blockNumber").zip(receipt.get("blockHash"));
        if holds { Ok(()) } else { Err(format!("with block {settled} settled: {:?}", found())) }
    }

    pub(super) fn waits(&self) -> Vec<Waits> {
        let pending = self.lock().pending();
        let seen = pending.into_iter().filter_map(|hash| {
            let found = self.ask("eth_getTransactionByHash", json!([hash]));
            let party = |name: &str| found.get(name)?.as_str()?.parse::<Address>().ok();
            let is_to_escrow = party("to") == Some(self.contracts.escrow);
            Some(Waits { hash: hash.to_string(), sender: known(party("from")?), is_to_escrow })
        });
        seen.collect()
    }

    /// It reverted in a settled block, or its nonce is used by another there.
    pub(super) fn never_lands(&self, prepared: &TransactionPrepared) -> Result<(), String> {
        let settled = self.lock().finalized().number;
        let receipt = self.ask("eth_getTransactionReceipt", json!([prepared.transaction_hash]));
        let reverted = number(&receipt, "status") == Some(0)
            && number(&receipt, "blockNumber").is_some_and(|block| block <= settled);
        let used = self.ask("eth_getTransactionCount", json!([prepared.sender, format!("{settled:#x}")]));
        let used = used.as_str().and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        let past = used.zip(prepared.validity.nonce()).is_some_and(|(used, nonce)| used > nonce);
        let superseded = receipt.is_null() && past;
        if reverted || superseded {
            return Ok(());
        }
        let found = receipt.get("blockNumber");
        Err(format!("{} at {:?} of {used:?} settled: {found:?}", prepared.transaction_hash, prepared.validity))
    }
}
