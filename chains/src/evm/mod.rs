//! EVM chains.

pub mod adapter;
pub mod attest;
pub mod contracts;
pub mod dev;
pub mod eip712;
mod logs;
pub mod node;
mod outcome;
pub mod permit2;
pub mod query;
pub mod reads;
pub mod revert;
mod rpc;
pub mod settler;
pub mod signature;
mod transaction;
pub mod verifier;
pub mod wallet;
