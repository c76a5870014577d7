//! What a node answers about transactions and blocks.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    NodeKind, RpcFault, SimCluster,
    answer::{error, result},
    block::{Block, Landed},
    node_view::{Level, NodeView},
    rpc::{base58, contextual, key, signature},
};

/// Signatures in one answer.
const SIGNATURES_MAX: u64 = 1_000;
/// Statuses in one answer.
const STATUSES_MAX: usize = 256;

impl SimCluster {
    /// The statuses come from the newest block's bank, which has those of the last transactions, and from the history.
    pub(super) fn get_statuses(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let names = params[0].as_array().ok_or_else(|| RpcFault::parameters("Invalid params: expected a list"))?;
        if names.len() > STATUSES_MAX {
            return Err(RpcFault::parameters(format!("Too many inputs provided; max {STATUSES_MAX}")));
        }
        let searches = params[1]["searchTransactionHistory"].as_bool().unwrap_or_default();
        let view = self.node_view(node);
        let newest = view.newest(Level::Processed);
        let status = |name: &Value| -> Result<Value, RpcFault> {
            let signature = signature(name)?;
            let found = view
                .executed(&signature)
                .filter(|(block, _)| searches || view.confirmations(block) <= self.timing.blockhash_age);
            Ok(found.map_or(Value::Null, |(block, landed)| {
                let level = view.level(block);
                let confirmations = (level != Level::Finalized).then(|| view.confirmations(block));
                json!({
                    "slot": block.slot,
                    "confirmations": confirmations,
                    "err": error(landed),
                    "status": result(landed),
                    "confirmationStatus": level.text(),
                })
            }))
        };
        let statuses: Result<Value, _> = names.iter().map(status).collect();
        Ok(contextual(newest.slot, statuses?))
    }

    pub(super) fn get_transaction(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let (signature, how) = (signature(&params[0])?, &params[1]);
        let view = self.node_view(node);
        let level = of_history(how)?;
        if !matches!(how["encoding"].as_str(), None | Some("json")) {
            return Err(RpcFault::parameters("the simulated node encodes transactions as json only"));
        }
        let found = view.landed(&signature, level);
        Ok(found.map_or(Value::Null, |(block, landed)| self.transaction_answer(block, landed, how)))
    }

    pub(super) fn get_signatures(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let (account, how) = (key(&params[0])?, &params[1]);
        let view = self.node_view(node);
        let level = of_history(how)?;
        view.context(how)?;
        let limit = how["limit"].as_u64().unwrap_or(SIGNATURES_MAX);
        if limit == 0 || limit > SIGNATURES_MAX {
            return Err(RpcFault::parameters(format!("Invalid limit; max {SIGNATURES_MAX}")));
        }
        let bound = |name: &str| match &how[name] {
            Value::Null => Ok(None),
            text => signature(text).map(Some),
        };
        let (before, until) = (bound("before")?, bound("until")?);
        let mut is_past = before.is_none();
        let mut found = Vec::new();
        for (block, landed) in view.naming(account, level) {
            if until == Some(landed.signed.signature) || found.len() as u64 == limit {
                break;
            }
            if is_past {
                found.push(listed(&view, block, landed));
            }
            is_past |= before == Some(landed.signed.signature);
        }
        Ok(found.into())
    }

    pub(super) fn get_block(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let (slot, how) = (slot_of(&params[0])?, &params[1]);
        let view = self.node_view(node);
        let block = view.at(slot, of_history(how)?)?;
        let mut answer = json!({
            "blockHeight": block.height,
            "blockTime": block.time,
            "blockhash": base58(&block.blockhash),
            "parentSlot": block.parent_slot,
            "previousBlockhash": base58(&block.previous_blockhash),
        });
        match how["transactionDetails"].as_str() {
            Some("none") => {}
            Some("signatures") => {
                let signatures = block.landed.iter().map(|landed| base58(&landed.signed.signature));
                answer["signatures"] = signatures.collect();
            }
            None | Some("full") => {
                let all = block.landed.iter().map(|landed| {
                    let mut one = self.transaction_answer(block, landed, how);
                    // What the block says is not said again.
                    if let Some(members) = one.as_object_mut() {
                        members.remove("slot");
                        members.remove("blockTime");
                    }
                    one
                });
                answer["transactions"] = all.collect();
            }
            Some(_) => return Err(RpcFault::parameters("Invalid params: unknown transactionDetails")),
        }
        if how["rewards"].as_bool().unwrap_or(true) {
            answer["rewards"] = json!([]);
        }
        Ok(answer)
    }

    /// A node tells the time of any block that it has, also of one on another branch.
    pub(super) fn get_block_time(&self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let slot = slot_of(&params[0])?;
        let view = self.node_view(node);
        match view.at(slot, Level::Processed) {
            Ok(block) => Ok(json!(block.time)),
            Err(_) if slot > view.newest(Level::Finalized).slot => {
                let left = self.fork.iter().find(|block| block.slot == slot);
                Ok(left.map_or(Value::Null, |block| json!(block.time)))
            }
            Err(fault) => Err(fault),
        }
    }
}

fn listed(view: &NodeView<'_>, block: &Arc<Block>, landed: &Landed) -> Value {
    json!({
        "signature": base58(&landed.signed.signature),
        "slot": block.slot,
        "err": error(landed),
        "memo": null,
        "blockTime": block.time,
        "confirmationStatus": view.level(block).text(),
    })
}

/// The commitment of a question about the history, which has nothing that is only processed.
fn of_history(how: &Value) -> Result<Level, RpcFault> {
    match Level::of(how)? {
        Level::Processed => Err(RpcFault::parameters("Method does not support commitment below `confirmed`")),
        level => Ok(level),
    }
}

fn slot_of(value: &Value) -> Result<u64, RpcFault> {
    value.as_u64().ok_or_else(|| RpcFault::parameters("Invalid params: invalid type: expected u64."))
}
