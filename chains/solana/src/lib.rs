//! Solana.
//!
//! - [`authorization`]: what the payer signs, rebuilt and checked field by field; no node is asked.
//! - [`node`]: one connection to a cluster, and what may be believed of it; [`query`] and [`reads`] ask it things.
//! - [`adapter`]: the engine's port over any number of clusters. [`settler`] and [`verifier`] are the other two parties,
//!   [`auditor`] believes none of them. [`wallet`] is the account that a settler sends from.
//! - [`program`] is the program in the engine's words, [`transaction`] and [`keys`] are bytes and signatures.
//! - [`dev`] sets the program up on a local cluster and is for nothing else.

pub mod adapter;
pub mod auditor;
pub mod authorization;
mod calls;
pub mod dev;
mod evidence;
pub mod holding;
pub mod keys;
pub mod node;
pub mod program;
pub mod query;
pub mod reads;
mod rpc;
pub mod settler;
mod submitters;
pub mod transaction;
mod transaction_status;
pub mod verifier;
pub mod wallet;
