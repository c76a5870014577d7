//! Refusals: what a program says no to, or would, in the form in which the engine keeps it.

use gateway_program::Key;

use events::failure::BlockchainContext;
use sagas::ports::{PrepareError, Refusal, Transient};

use super::{
    node::Node,
    program::{self, text},
};

/// The context of a failure on the chain of `node`, with nothing but the program and the reason.
pub(super) fn context(node: &Node, program: &Key, reason: String) -> BlockchainContext {
    BlockchainContext {
        chain_id: node.chain_id().clone(),
        transaction_hash: None,
        block_number: None,
        contract_address: Some(text(program)),
        revert_reason: Some(reason),
        gas_used: None,
        estimated_gas_needed: None,
    }
}

/// A refusal that holds for the chain's state as it is now. Nobody signed what the node was shown, so nobody can send it.
pub(super) fn refused(node: &Node, program: &Key, reason: String) -> PrepareError {
    PrepareError::Refused(Box::new(Refusal { context: context(node, program, reason), valid_until: 0 }))
}

/// What the `error` of a simulation is: a refusal when an instruction failed; anything else is the node's trouble, or the
/// submitter's. `programs` are those of the instructions, in order.
pub(super) fn refused_trial(node: &Node, program: &Key, error: &serde_json::Value, programs: &[Key]) -> PrepareError {
    let reason = program::reason(error, programs);
    match error.get("InstructionError") {
        Some(_) => refused(node, program, reason),
        None => Transient::contradiction(format!("{}: the transaction cannot be simulated: {reason}", node.chain_id()))
            .into(),
    }
}
