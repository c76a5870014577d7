//! The chains: the engine's ports implemented for each family.

pub mod act;
pub mod auditor;
pub mod config;
pub mod escrow;
pub mod evm;
pub mod families;
pub mod gas;
mod heads;
pub mod setup;
pub mod solana;
mod submitters;
pub mod tron;
pub mod verifier;
mod windows;
