//! Deterministic simulation of the engine: its own code under one seed, on a world in one thread with a simulated clock.
//!
//! [`run::run`] runs one seed. The [`plan`] is drawn from it, and so is every later fault. The chains, of any [`family`],
//! execute the real contracts behind the interface of their nodes ([`chain`], [`solana`], [`tron`]), and adapter, verifier,
//! ledger, journal envelopes, views and engine are the gateway's own. The [`world::invariants`] are checked after every commit
//! and every block. Nothing depends on the machine's time, on its randomness or on the order of a hash map, so a seed that
//! failed fails again.

pub mod blocks;
pub mod chain;
pub mod coverage;
pub mod evm;
pub mod family;
pub mod mutants;
pub mod plan;
pub mod process;
pub mod random;
pub mod run;
pub mod solana;
pub mod trace;
pub mod tron;
pub mod world;
