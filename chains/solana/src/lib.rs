//! Adapter for Solana.
//!
//! - [`authorization`]: what the payer signs, rebuilt and checked field by field; no node is asked.
//! - [`node`]: one connection to a cluster, and what may be believed of it. What it is asked has a type each: [`escrows`] and
//!   `deliveries` (the program's [`records`]), [`reassignments`] of an escrow, [`history`] (transactions that landed), [`holding`] (a payer's tokens),
//!   [`broadcaster`] (making and sending a transaction), `transaction_status` (what became of the gateway's own).
//! - [`deposit_addresses`]: addresses that commit to a payment, what is there and what went back; `deposit_from_address` carries it into
//!   the escrow.
//! - [`offers`]: addresses that commit to a merchant's offer, to which stock clients of x402 pay; [`exact`] reads what they sign,
//!   [`purchase_admission`] asks the cluster before it is accepted, and `purchases` brings it, deposits it, or has it collected for the merchant.
//! - [`adapter`]: the engine's port for one cluster; `calls` makes its instructions, `submitters` chooses who sends them,
//!   `refusal` is how the engine keeps a program's no, `record_watcher` says when a payment is worth looking at.
//! - [`settler`] and [`verifier`] are the other two parties, [`auditor`] believes none of them and reads `evidence`: what an
//!   executed transaction moved. [`wallet`] is the account that a settler sends from. [`wrapping`] is what a payer sends who holds
//!   SOL.
//! - `token_accounts` is where a wallet's tokens are, in whichever of the two token programs.
//! - [`program`] converts between the engine's types and the program's, [`transaction`] and [`keys`] are bytes and signatures,
//!   `rpc` is the endpoint, [`transport`] the way there.
//! - [`deploy`] puts the program on a cluster and compares what is there; [`dev`] sets the program up on a local cluster and is for nothing else.

pub mod adapter;
pub mod auditor;
pub mod authorization;
pub mod broadcaster;
mod calls;
mod deliveries;
pub mod deploy;
pub mod deposit_addresses;
mod deposit_from_address;
pub mod dev;
mod diagnosis;
pub mod escrows;
mod evidence;
pub mod exact;
pub mod history;
pub mod holding;
pub mod keys;
pub mod node;
mod nodes;
pub mod offers;
pub mod program;
pub mod purchase_admission;
mod purchases;
mod readiness;
pub mod reassignments;
mod record_watcher;
pub mod records;
mod refusal;
mod rpc;
pub mod settler;
mod submitters;
mod token_accounts;
pub mod transaction;
mod transaction_status;
pub mod transport;
pub mod verifier;
mod vitals;
pub mod wallet;
mod word;
pub mod wrapping;
