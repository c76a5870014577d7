//! The gateway's edge: HTTP API, auction over NATS, verifier service, configuration, telemetry and CLI around the saga
//! engine of the crate `sagas`. The binary `gw` is a thin shell over this library.

pub mod auction;
pub mod audit;
pub mod callers;
pub mod cli;
pub mod clock;
pub mod config;
pub mod dev;
pub mod http;
pub mod identity;
pub mod nats;
pub mod operator;
pub mod pause;
pub mod policy;
pub mod protocol;
pub mod selector;
pub mod serve;
pub mod server;
pub mod startup;
pub mod telemetry;
pub mod verifier;
