//! The binary `gw`: the command line, the one place that puts a process together (`serve`), what operators ask of running
//! gateways (`operator`), what is counted ([`metrics`]), which consumers auditors may have ([`auditors`]) and the keys and certificates of NATS ([`nats`]).
//! Everything else is in crates of its own.

pub mod auditors;
pub mod cli;
pub mod clock;
mod console;
pub mod metrics;
pub mod nats;
mod operator;
mod serve;
pub mod shutdown;
mod signers;
mod startup;
pub mod telemetry;
