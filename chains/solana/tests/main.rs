//! The ports of Solana against a real runtime; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod audit_addresses;
mod authorization;
mod belief;
mod client;
mod deploy;
mod deposit_addresses;
#[path = "../../evm/tests/support/mod.rs"]
#[allow(dead_code, reason = "what the EVM tests share, of which few is for payments between the families")]
mod evm_support;
mod holding;
mod nodes;
mod payment;
mod release;
mod reservers;
mod settlement;
mod submitters;
mod support;
mod transaction_status;
mod waiting;
