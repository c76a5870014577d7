//! A settler: quotes payments, delivers on the destination chain and is paid from the escrow on the source chain.
//!
//! The crate is both the agent behind `gw settler` and a library to build one's own. [`Settler::connect`] makes the
//! agent of a [`Config`]; [`Settler::new`] takes other chains, by the trait [`chains::settler::DeliveryChain`]. A settler
//! in another language needs the documents in the folder `protocol` alone: the JSON messages and the NATS subjects.
//!
//! What keeps a settler's money safe:
//! - it deals only with the escrows, the proxies and the verifiers of its own configuration, whatever a request names;
//! - it delivers only after the escrow, at the depth the chain requires, holds exactly the reservation it signed for;
//! - a request that nobody signed holds none of its tokens, and a signed one holds them for seconds, until the payment
//!   is in escrow;
//! - it keeps no state that matters: what is left to do is read from the chains, and the proxy takes a delivery once.

pub mod chain_registry;
pub mod claims;
pub mod config;
pub mod dev;
pub mod inventory;
pub mod job;
pub mod nats_credentials;
pub mod pricing;
pub mod quoting;
pub mod trials;
pub mod verifier;

mod agent;
mod agent_metrics;
mod attestations;
mod balances;
mod nats;
mod outcome;
mod recent;
mod reverts;
mod settlement;
mod single_flight;

pub use agent::{Error, Settler};
pub use config::{Config, Options};
pub use nats_credentials::nats_account;
