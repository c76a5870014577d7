//! What a node answers to a transaction: a simulation of it, or that it passes it on.

use std::sync::Arc;

use serde_json::{Value, json};
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_transaction::TransactionError;

use super::{
    NodeKind, RpcFault, SimCluster,
    answer::written,
    node_view::Level,
    rpc::{base58, contextual, transaction_bytes},
    wire::Signed,
};

/// A simulation.
struct Trial {
    slot: u64,
    error: Option<TransactionError>,
    answer: Value,
}

impl SimCluster {
    pub(super) fn simulate(&mut self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let how = &params[1];
        let signed = parsed(&params[0], how)?;
        let (replaces, verifies) = (flag(how, "replaceRecentBlockhash"), flag(how, "sigVerify"));
        if verifies && replaces {
            return Err(RpcFault::parameters("sigVerify may not be used with replaceRecentBlockhash"));
        }
        if verifies && !signed.verify() {
            return Err(RpcFault::signature());
        }
        let trial = self.trial(node, signed, how, replaces)?;
        Ok(contextual(trial.slot, trial.answer))
    }

    /// A node that does not simulate first passes on whatever has the form of a transaction; the leaders look at the rest.
    pub(super) fn send(&mut self, node: NodeKind, params: &Value) -> Result<Value, RpcFault> {
        let how = &params[1];
        let signed = parsed(&params[0], how)?;
        if !flag(how, "skipPreflight") {
            if !signed.verify() {
                return Err(RpcFault::signature());
            }
            if let NodeKind::Lagging { blocks } = node {
                return Err(RpcFault::behind(blocks as u64));
            }
            let level = match &how["preflightCommitment"] {
                Value::Null => json!("finalized"),
                level => level.clone(),
            };
            let how = json!({"commitment": level, "minContextSlot": how["minContextSlot"]});
            let trial = self.trial(node, signed.clone(), &how, false)?;
            if let Some(error) = trial.error {
                return Err(RpcFault::preflight(error, trial.answer));
            }
        }
        let signature = base58(&signed.signature);
        if signed.verify() {
            self.pool.add(signed);
        }
        Ok(json!(signature))
    }

    fn trial(
        &mut self,
        node: NodeKind,
        mut signed: Arc<Signed>,
        how: &Value,
        replaces: bool,
    ) -> Result<Trial, RpcFault> {
        let view = self.node_view(node);
        let level = Level::of(how)?;
        let block = view.context(how)?.clone();
        let age_max = self.timing.blockhash_age;
        let mut replacement = Value::Null;
        let known = if replaces {
            let last_valid = block.height + age_max;
            replacement = json!({"blockhash": base58(&block.blockhash), "lastValidBlockHeight": last_valid});
            signed = with_blockhash(&signed, block.blockhash);
            None
        } else if view.recent(&signed.blockhash(), level, age_max).is_none() {
            Some(TransactionError::BlockhashNotFound)
        } else {
            let landed = view.executed(&signed.signature).is_some_and(|(landed, _)| landed.height <= block.height);
            landed.then_some(TransactionError::AlreadyProcessed)
        };
        let (error, logs, units) = match known {
            Some(error) => (Some(error), Vec::new(), 0),
            None => {
                let done = self.runtime.simulate(&block.state, block.moment(), &signed);
                let done = done.map_err(|error| RpcFault::parameters(error.to_string()))?;
                (done.error, done.logs, done.units)
            }
        };
        let mut answer = json!({
            "err": error.as_ref().map(written),
            "logs": logs,
            "accounts": null,
            "unitsConsumed": units,
            "returnData": null,
            "innerInstructions": null,
            "replacementBlockhash": replacement,
        });
        // Newer versions tell more, which is null where it was not asked for.
        for name in ["fee", "preBalances", "postBalances", "preTokenBalances", "postTokenBalances", "loadedAddresses"] {
            answer[name] = Value::Null;
        }
        Ok(Trial { slot: block.slot, error, answer })
    }
}

fn parsed(text: &Value, how: &Value) -> Result<Arc<Signed>, RpcFault> {
    let bytes = transaction_bytes(text, how)?;
    Signed::parse(&bytes).map_err(|reason| RpcFault::parameters(format!("failed to deserialize: {reason}")))
}

fn flag(how: &Value, name: &str) -> bool {
    how[name].as_bool().unwrap_or_default()
}

/// The same transaction with another blockhash, and with signatures that do not fit any more.
fn with_blockhash(signed: &Signed, blockhash: [u8; 32]) -> Arc<Signed> {
    let mut other = signed.clone();
    if let VersionedMessage::Legacy(message) = &mut other.transaction.message {
        message.recent_blockhash = Hash::new_from_array(blockhash);
    }
    Arc::new(other)
}
