//! EVM chains.
//!
//! - [`permit2`]: what the payer signs, rebuilt and checked field by field; no chain needed unless the payer is a contract.
//! - [`node`]: one connection to a chain, and what may be believed of it; [`query`] is what it is asked. [`escrows`], [`deliveries`]
//!   and the gateway's transactions are read through it, each by a type of its own.
//! - [`adapter`]: the engine's port over any number of chains; [`submitters`] are the accounts it sends from. [`settler`] and [`verifier`] are the other two parties.
//! - [`batching`] asks for what many want to read in few requests.
//! - [`attest`] signs what the escrow is told. The contracts' types are in [`escrow_abi`].
//! - [`dev`] puts the contracts on a local anvil and is for nothing else.

pub mod adapter;
pub mod attest;
pub mod auditor;
pub mod batching;
pub mod deliveries;
pub mod dev;
pub mod erc6492;
pub mod escrows;
mod log_watcher;
mod logs;
pub mod node;
pub mod payers;
pub mod permit2;
pub mod query;
mod rpc;
pub mod settler;
pub mod submitters;
mod transaction;
mod transaction_status;
pub mod verifier;
pub mod wallet;
