//! The chains: the engine's ports implemented for each family.

pub mod config;
pub mod evm;
pub mod families;
