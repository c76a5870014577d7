//! The engine under one seed: its own code, on a world that lives in one thread and has no clock but its own.
//!
//! [`run::run`] plays one seed. The [`plan`] of what is to happen is drawn from it, and so is every later fault. The chains
//! execute the real contracts behind JSON-RPC ([`chain`]), and adapter, verifier, ledger, journal envelopes, views and
//! engine are the gateway's own. After every commit and every block the [`books`] look at all that must hold. Nothing
//! depends on the machine's time, on its randomness or on the order of a hash map, so a seed that failed fails again.

pub mod auction;
pub mod batch;
pub mod blocks;
pub mod invariants;
pub mod coverage;
pub mod chain;
pub mod client;
pub mod random;
pub mod rpc_faults;
pub mod gateway;
pub mod sim_journal;
pub mod process;
pub mod mutants;
pub mod operator;
pub mod parking;
pub mod plan;
pub mod ports;
pub mod projection;
pub mod reports;
pub mod run;
pub mod selector;
pub mod settlers;
pub mod trace;
pub mod world;
