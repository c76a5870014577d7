//! The simulated Tron chain under the adapters that know only real nodes.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod forks;
mod money;
mod mutants;
mod payment;
mod support;
mod two_nodes;
