//! Deterministic simulation of the engine: its own code under one seed, on a world in one thread with a simulated clock.
//!
//! [`run::run`] runs one seed. The [`plan`] is drawn from it, and so is every later fault. The chains execute the real
//! contracts behind JSON-RPC ([`chain`]), and adapter, verifier, ledger, journal envelopes, views and engine are the
//! gateway's own. The [`invariants`] are checked after every commit and every block. Nothing depends on the machine's time,
//! on its randomness or on the order of a hash map, so a seed that failed fails again.

pub mod auction;
pub mod batch;
pub mod blocks;
pub mod chain;
pub mod client;
pub mod coverage;
pub mod gateway;
pub mod invariants;
pub mod mutants;
pub mod operator;
pub mod parking;
pub mod plan;
pub mod ports;
pub mod process;
pub mod projection;
pub mod random;
pub mod reports;
pub mod rpc_faults;
pub mod run;
pub mod selector;
pub mod settlers;
pub mod sim_journal;
pub mod trace;
pub mod world;
