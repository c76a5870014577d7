//! The simulated chain: as a real node, and under the adapters that know only real nodes.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod against_anvil;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod payment;
mod reorganisations;
mod support;
mod two_nodes;
