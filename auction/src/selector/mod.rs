//! Quote selectors: the service that chooses among the quotes of an auction, and the client through which the engine asks
//! one.
//!
//! A payer who names a selector (spec 2.1) has its choice followed instead of the gateway's own rule. The gateway shows it
//! the quotes that are eligible and no others, and follows a choice only when the selector's key signed it about exactly
//! these quotes; what is signed is in `events::selection`, the messages are in `protocol::selection`. A selector
//! keeps nothing: what it answers follows from the request and its configuration.

mod client;
mod nats_credentials;
mod rule;
mod service;
#[cfg(test)]
mod tests;

pub use client::NatsSelector;
pub use nats_credentials::{nats_account, nats_import};
pub use service::{Error, run};
