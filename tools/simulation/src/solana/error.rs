//! Errors: of what the world does to a cluster, and of JSON-RPC answers.

use serde_json::{Value, json};

/// Why the world cannot change a cluster so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A block that is earlier than its parent.
    #[error("a block of the second {time} cannot follow one of {head}")]
    Time {
        /// The block's UNIX second.
        time: u64,
        /// Its parent's.
        head: u64,
    },
    /// A fork that would drop a finalized block.
    #[error("{depth} blocks below slot {head} the finalized slot {finalized} would be dropped")]
    Final {
        /// Blocks to be dropped.
        depth: usize,
        /// The newest slot.
        head: u64,
        /// The finalized slot.
        finalized: u64,
    },
    /// Possible only before the first block after the genesis.
    #[error("the cluster has started")]
    Started,
    /// The cluster or a program on it refuses.
    #[error("refused: {0}")]
    Refused(String),
    /// The committed program cannot be used.
    #[error("the program cannot be used: {0}")]
    Artefact(String),
}

/// The error of a JSON-RPC answer, with codes and words as Agave's nodes have them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcFault {
    /// JSON-RPC error code.
    pub code: i64,
    /// The defect.
    pub message: String,
    /// What belongs to it.
    pub data: Option<Value>,
}

impl RpcFault {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The parameters cannot be understood.
    pub(super) fn parameters(message: impl Into<String>) -> Self {
        Self::new(-32_602, message)
    }

    /// There is no such method.
    pub(super) fn method() -> Self {
        Self::new(-32_601, "Method not found")
    }

    /// What is older than the node keeps.
    pub(super) fn cleaned_up(slot: u64, first: u64) -> Self {
        let message = format!("Block {slot} cleaned up, does not exist on node. First available block: {first}");
        Self::new(-32_001, message)
    }

    /// The simulation before sending failed: `reason` in words, and what it answered.
    pub(super) fn preflight(reason: impl std::fmt::Display, simulated: Value) -> Self {
        let message = format!("Transaction simulation failed: {reason}");
        Self { data: Some(simulated), ..Self::new(-32_002, message) }
    }

    /// A signature does not hold.
    pub(super) fn signature() -> Self {
        Self::new(-32_003, "Transaction signature verification failure")
    }

    /// There is no such block yet.
    pub(super) fn not_available(slot: u64) -> Self {
        Self::new(-32_004, format!("Block not available for slot {slot}"))
    }

    /// The node knows that it is behind, and takes no transaction.
    pub(super) fn behind(slots: u64) -> Self {
        let message = format!("Node is behind by {slots} slots");
        Self { data: Some(json!({"numSlotsBehind": slots})), ..Self::new(-32_005, message) }
    }

    /// No leader made a block in the slot.
    pub(super) fn skipped(slot: u64) -> Self {
        Self::new(-32_007, format!("Slot {slot} was skipped, or missing due to ledger jump to recent snapshot"))
    }

    /// The node has not got as far as the caller wants.
    pub(super) fn below_context(slot: u64) -> Self {
        let message = "Minimum context slot has not been reached";
        Self { data: Some(json!({"contextSlot": slot})), ..Self::new(-32_016, message) }
    }
}
