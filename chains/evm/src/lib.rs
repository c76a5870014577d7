//! Adapter for EVM chains.
//!
//! - [`authorization`]: what the payer signs, rebuilt and checked field by field; no chain needed unless the payer is a contract.
//!   [`token_domain`] says which tokens take signatures themselves, [`payers`] which payers are contracts, `erc6492` how one that is not deployed yet pays, `permitted_deposit` how one pays
//!   that signs its allowance, too.
//! - [`node`]: one connection to a chain, and what may be believed of its blocks, over `rpc`. [`query`] asks it about accounts and
//!   transactions, `calls` tries out calls of contracts, [`batching`] asks for what many want to read in few requests.
//! - [`escrows`], [`deliveries`] and `transaction_status` conclude from that where an escrow, a delivery and a transaction of the
//!   gateway stand; `logs` finds their events, `log_source` tells the chain's log watcher of them.
//! - [`adapter`]: the engine's port of one chain. `preparation` makes its transactions, `deposit_call` what a deposit calls,
//!   `reassignment` what a reassignment does, and whether it is there, `transaction` their bytes; [`submitters`] are the accounts that send them, `payer_budgets` what they may cost in vain.
//! - [`settler`], `verifier` and [`auditor`] are the other parties' views; a settler sends through its [`wallet`].
//!   [`wrapping`] is what a payer sends who holds the chain's own coin.
//! - [`attest`] signs what the escrow is told. The contracts' types are in [`escrow_abi`].
//! - [`deploy`] puts the contracts on a chain, and compares what is there with what should be.
//! - [`dev`] puts the contracts on a local anvil and is for nothing else.

pub mod adapter;
pub mod attest;
pub mod auditor;
pub mod authorization;
pub mod batching;
pub mod calls;
pub mod deliveries;
pub mod deploy;
mod deployer;
pub mod deposit_addresses;
mod deposit_call;
pub mod dev;
mod diagnosis;
mod erc6492;
pub mod escrows;
mod factories;
mod held_outside;
mod log_source;
mod logs;
pub mod mandates;
pub mod minimal_proxy;
pub mod node;
pub mod offers;
mod payer_budgets;
pub mod payers;
pub mod payment_batches;
mod permitted_deposit;
mod preparation;
pub mod query;
mod questions;
mod readiness;
mod reassignment;
mod rpc;
pub mod settler;
pub mod signed_digest;
pub mod submitters;
pub mod token_domain;
mod transaction;
pub mod transaction_status;
mod transport;
mod turns;
mod verifier;
mod vitals;
pub mod wallet;
pub mod wrapping;
