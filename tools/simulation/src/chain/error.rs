//! Errors: of what the world does to a chain, and of JSON-RPC answers.

use alloy::{
    primitives::Bytes,
    sol_types::{Revert, SolError},
};
use serde_json::Value;

/// What the code of JSON-RPC answers is for "the request could not be carried out", in geth and in most others.
const CODE_REFUSED: i64 = -32_000;
/// A contract refused.
const CODE_REVERTED: i64 = 3;
/// The parameters are not what the method takes.
const CODE_PARAMETERS: i64 = -32_602;
/// There is no such method.
const CODE_METHOD: i64 = -32_601;

/// Why the world cannot change a chain so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A block not later than its parent.
    #[error("a block of the second {time} cannot follow one of {head}")]
    Time {
        /// The block's UNIX second.
        time: u64,
        /// Its parent's.
        head: u64,
    },
    /// A reorganisation that would drop the finalized block.
    #[error("{depth} blocks below block {head} the finalized block {finalized} would be dropped")]
    Final {
        /// Blocks to be dropped.
        depth: u64,
        /// The newest block.
        head: u64,
        /// The finalized block.
        finalized: u64,
    },
    /// Possible only before the first block after the genesis.
    #[error("the chain has started")]
    Started,
    /// The chain or a contract on it refuses.
    #[error("refused: {0}")]
    Refused(String),
    /// An artefact cannot be used.
    #[error("artefact of {0} cannot be used: {1}")]
    Artefact(&'static str, String),
}

/// The error of a JSON-RPC answer, with codes and words as geth has them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcFault {
    /// JSON-RPC error code.
    pub code: i64,
    /// The defect.
    pub message: String,
    /// What a contract returned when it refused.
    pub data: Option<Value>,
}

impl RpcFault {
    /// The node refuses.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self { code: CODE_REFUSED, message: message.into(), data: None }
    }

    /// The parameters cannot be understood.
    pub(super) fn parameters(message: impl Into<String>) -> Self {
        Self { code: CODE_PARAMETERS, message: message.into(), data: None }
    }

    /// There is no such method.
    pub(super) fn method(name: &str) -> Self {
        let message = format!("the method {name} does not exist/is not available");
        Self { code: CODE_METHOD, message, data: None }
    }

    /// A contract refused with `output`.
    pub(super) fn reverted(output: &Bytes) -> Self {
        let message = match Revert::abi_decode(output) {
            Ok(revert) => format!("execution reverted: {}", revert.reason),
            Err(_) => "execution reverted".to_owned(),
        };
        Self { code: CODE_REVERTED, message, data: Some(Value::from(output.to_string())) }
    }
}
