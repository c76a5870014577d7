//! Tron chains in memory, with the real contracts on them, as a node's HTTP API shows them.
//!
//! The chain is that of [`trondev`], within this process: real Tron transactions, their checks, energy and bandwidth, contracts on an
//! EVM. Nothing here reads a clock or draws at random: the world makes each block and gives its time, and the same calls in the
//! same order give the same chain to the last id. The adapters of [`chains_tron`] run on it as they are.
//!
//! - [`Template`] deploys once, [`Template::start`] gives each run its own [`SimTron`].
//! - [`SimTron`] is the world's handle: blocks, forks of what is not solidified, transactions that wait, energy, money.
//! - [`SimTron::answer`] is what a node answers; which node, and how honest, is the [`TronView`].
//! - [`TronTransport`] connects [`chains_tron::node::Node`] to it, with faults of the calls.
//! - [`begin`] makes such a chain one of the world's.
//!
//! Not simulated: staking, votes, permissions of several keys, energy that a contract's owner pays.

mod beginning;
mod chain;
mod events;
mod family;
mod faults;
mod orders;
mod template;
mod transactions;
mod transport;
mod view;

pub use self::{
    beginning::begin,
    chain::{BLOCK_MS, Mined, Reorganised, SharedTron, SimTron, TronError},
    template::{Contracts, Template},
    transport::{TronOutcome, TronTransport},
    view::TronView,
};
