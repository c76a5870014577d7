//! The simulated cluster: as a real node, and under the adapter that knows only real nodes.

// A test may panic, and so may what helps it.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod against_surfpool;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod forks;
mod mutants;
mod payment;
mod support;
mod two_nodes;
