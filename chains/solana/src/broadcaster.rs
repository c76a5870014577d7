//! Broadcaster: what a transaction needs of a node before it is signed (blockhash, simulation, fees), and the sending.

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use gateway_program::{Hash, Key};
use sagas::ports::Transient;

use super::{
    node::{Commitment, Contextual, Node, Settled},
    nodes::SEND,
    program::text,
    rpc::Fault,
};

/// Blocks for which a blockhash counts.
const BLOCKHASH_AGE_MAX: u64 = 150;
/// Blocks by which a node's newest block may be above what is settled; what is said beyond is not believed.
const UNSETTLED_BLOCKS_MAX: u64 = 512;

/// What brings transactions to one chain.
#[derive(Debug, Clone, Copy)]
pub struct Broadcaster<'a> {
    node: &'a Node,
}

/// A blockhash to sign with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blockhash {
    /// The hash.
    pub hash: Hash,
    /// Last block height at which a transaction with it may land.
    pub last_valid_height: u64,
}

/// What a simulation of a transaction showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Why it would fail; `None` when it would not.
    pub error: Option<Value>,
    /// Compute units it takes.
    pub units: u64,
}

/// What `getLatestBlockhash` has for a value.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawBlockhash {
    pub blockhash: String,
    pub last_valid_block_height: u64,
}

/// What `simulateTransaction` has for a value.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawSimulated {
    pub err: Option<Value>,
    pub units_consumed: Option<u64>,
    pub logs: Option<Vec<String>>,
}

/// What `getRecentPrioritizationFees` says of a slot.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawFee {
    pub prioritization_fee: u64,
}

impl<'a> Broadcaster<'a> {
    /// The broadcaster for the chain of `node`.
    pub fn of(node: &'a Node) -> Self {
        Self { node }
    }

    /// A confirmed blockhash.
    ///
    /// # Errors
    /// [`Transient`], also when the height up to which it is said to count fits nothing that is settled.
    pub async fn blockhash(&self, settled: Settled) -> Result<Blockhash, Transient> {
        let how = json!([{"commitment": Commitment::Confirmed.text(), "minContextSlot": settled.slot}]);
        let answer: Contextual<RawBlockhash> = self.node.request("getLatestBlockhash", how).await?;
        let RawBlockhash { blockhash, last_valid_block_height: last_valid_height } = answer.value;
        let most = settled.height.saturating_add(BLOCKHASH_AGE_MAX + UNSETTLED_BLOCKS_MAX);
        if answer.context.slot < settled.slot || last_valid_height <= settled.height || last_valid_height > most {
            let what = format!("a blockhash up to height {last_valid_height}, with {} settled", settled.height);
            return Err(self.node.contradiction(what));
        }
        Ok(Blockhash { hash: self.node.bytes32(&blockhash)?, last_valid_height })
    }

    /// Whether a transaction with this blockhash may land in the next block, and of which slot that is; the state is of `at_least` or later.
    ///
    /// # Errors
    /// [`Transient`], also when the answer is of an earlier state.
    pub async fn counts(
        &self,
        blockhash: &Hash,
        commitment: Commitment,
        at_least: u64,
    ) -> Result<(bool, u64), Transient> {
        let how = json!([text(blockhash), {"commitment": commitment.text(), "minContextSlot": at_least}]);
        let answer: Contextual<bool> = self.node.request("isBlockhashValid", how).await?;
        if answer.context.slot < at_least {
            let what = format!("a blockhash was judged in slot {}, not in {at_least}", answer.context.slot);
            return Err(self.node.contradiction(what));
        }
        Ok((answer.value, answer.context.slot))
    }

    /// Simulates a transaction at the newest confirmed state. Its signatures and its blockhash are not looked at.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn simulate(&self, wire: &[u8]) -> Result<Simulated, Transient> {
        let how = json!({
            "encoding": "base64",
            "sigVerify": false,
            "replaceRecentBlockhash": true,
            "commitment": Commitment::Confirmed.text(),
        });
        let answer: Contextual<RawSimulated> =
            self.node.request("simulateTransaction", json!([BASE64.encode(wire), how])).await?;
        Ok(Simulated { error: answer.value.err, units: answer.value.units_consumed.unwrap_or(0) })
    }

    /// Sends a transaction's bytes. That the node knows it already is not a fault.
    ///
    /// # Errors
    /// [`Transient`]; it may be on its way all the same.
    pub async fn send(&self, wire: &[u8]) -> Result<(), Transient> {
        // Without preflight: it was simulated before it was signed, and a node that lags would refuse what is right.
        let how = json!({"encoding": "base64", "skipPreflight": true, "maxRetries": 0});
        match self.node.request::<String>(SEND, json!([BASE64.encode(wire), how])).await {
            Ok(_) | Err(Fault::Known(_)) => Ok(()),
            Err(fault) => Err(fault.into()),
        }
    }

    /// What transactions that wrote to `accounts` paid in the last slots for each compute unit besides the base fee, in
    /// millionths of a lamport.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn recent_fees(&self, accounts: &[Key]) -> Result<Vec<u64>, Transient> {
        let names: Vec<String> = accounts.iter().map(text).collect();
        let fees: Vec<RawFee> = self.node.request("getRecentPrioritizationFees", json!([names])).await?;
        Ok(fees.into_iter().map(|fee| fee.prioritization_fee).collect())
    }
}
