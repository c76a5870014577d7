//! Tron.
//!
//! - [`authorization`]: what the payer signs, decoded and checked field by field, and then by the chain; [`permission`] says
//!   whether its key may sign.
//! - [`adapter`]: the engine's port over any number of chains.
//! - [`node`]: one connection to a chain, and what may be believed of it; `query` is what it is asked, over HTTP,
//!   [`reads`] what its contracts have on record, and [`search`] where in a block their events are.
//! - [`transaction`] is bytes, ids and signatures, `proto` the messages that they are made of, [`address`] the forms of
//!   addresses. Contracts and EIP-712 are those of [`escrow_abi`].
//! - [`settler`], [`verifier`] and [`auditor`] are the other parties; a settler's [`wallet`] sends.
//! - [`dev`] sets the contracts up on a development chain and is for nothing else.

pub mod adapter;
pub mod address;
pub mod auditor;
pub mod authorization;
mod calls;
pub mod dev;
pub mod node;
mod payer_deposit;
pub mod permission;
mod proto;
mod query;
pub mod reads;
mod rpc;
pub mod search;
pub mod settler;
mod submitters;
pub mod transaction;
mod transaction_status;
pub mod verifier;
pub mod wallet;
