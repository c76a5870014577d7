//! Adapter for Tron.
//!
//! - [`authorization`]: what the payer signs, decoded and checked field by field, and then by the chain; `permission` says
//!   whether its key may sign.
//! - [`adapter`]: the engine's port, an object a chain. `reservation` is the next step of a deposit, `payer_deposit` sends the
//!   payer's own transactions, `admitted_deposit` deposits what was sent to an address ([`deposit_addresses`]) or what Permit2 may
//!   draw ([`permit2`]), `agreement` is what the escrow commits to. `calls` makes refunds and releases, `reassignment` what is
//!   between, `submitters` who sends them, `cost` what that takes, `daily_returns` how often money of addresses is given back.
//! - [`connection`]: one chain's node, and what may be believed of it; `query` is what it is asked, `rpc` the
//!   calls under that, [`transport`] their way, HTTP or another. A [`node`] is a connection with a chain's configuration.
//! - [`escrows`] and `deliveries`: what the contracts have on record, which `reads` dates; `search` says where in a block an
//!   event is, `log_source` tells the chain's log watcher of the newest ones, which `block_logs` keeps.
//! - `deposits` and `transaction_status`: what became of a deposit, and of a transaction by itself.
//! - [`transaction`] is bytes, ids and signatures, `proto` the messages that they are made of, [`address`] the forms of
//!   addresses. Contracts and EIP-712 are those of [`escrow_abi`].
//! - [`settler`], `verifier` and [`auditor`] are the other parties; a settler's [`wallet`] sends. [`wrapping`] is what a payer
//!   sends who holds TRX.
//! - [`deploy`] puts the contracts on a chain; `creation` is the transaction that does it, and where the contract is then.
//! - [`dev`] sets the contracts up on a development chain and is for nothing else.

pub mod adapter;
pub mod address;
mod admitted_deposit;
mod agreement;
pub mod auditor;
pub mod authorization;
mod block_logs;
mod calls;
pub mod connection;
mod cost;
mod creation;
mod daily_returns;
mod deliveries;
pub mod deploy;
pub mod deposit_addresses;
mod deposits;
pub mod dev;
mod diagnosis;
pub mod escrows;
mod log_source;
pub mod node;
mod nodes;
mod payer_deposit;
mod permission;
pub mod permit2;
mod proto;
mod query;
mod readiness;
mod reads;
mod reassignment;
mod reservation;
mod rpc;
mod search;
pub mod settler;
mod submitters;
pub mod token;
pub mod transaction;
mod transaction_status;
pub mod transport;
mod verifier;
mod vitals;
pub mod wallet;
pub mod wrapping;
