//! A settler's decisions: one test program, a file a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod aggregators;
mod awards;
mod claims;
mod configuration;
mod prices;
mod quoting;
mod reassignment;

use chains::perform::PerformError;
use events::{ChainId, failure::BlockchainContext};

/// What a chain says that refuses a transaction for this reason.
fn refused(reason: &str) -> PerformError {
    PerformError::Refused(Box::new(BlockchainContext {
        chain_id: ChainId::evm(10),
        transaction_hash: None,
        block_number: None,
        contract_address: None,
        revert_reason: Some(reason.to_owned()),
        gas_used: None,
        estimated_gas_needed: None,
    }))
}
