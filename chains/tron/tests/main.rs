//! The ports of Tron against a development chain with the real contracts; a file is a subject.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod audit;
mod audit_addresses;
mod audit_permits;
mod authorization;
mod belief;
mod claims;
mod client;
mod costs;
mod deploy;
mod deposit;
mod deposit_addresses;
mod deposit_reservable;
mod endpoint;
#[path = "../../evm/tests/support/mod.rs"]
#[allow(dead_code, reason = "what the EVM tests share, of which few is for payments between the families")]
mod evm_support;
mod nodes;
mod permit2;
mod reassignment;
mod release;
mod reservers;
mod settlement;
mod submitters;
mod support;
mod transaction_status;
mod waiting;
mod wire;
