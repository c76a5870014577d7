//! The client against gateways that answer as they like: what is asked again, with which bytes, and what is made of the answers.

#![allow(clippy::expect_used, clippy::unwrap_used)]

#[cfg(feature = "evm")]
mod batches;
#[cfg(feature = "evm")]
mod mandates;
mod retries;
mod scripted;
mod watching;
