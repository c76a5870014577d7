//! The gateway's edge: HTTP API, auction over NATS, verifier service, configuration, telemetry and CLI around the saga
//! engine of the crate `sagas`. The binary `gw` is a thin shell over this library.

pub mod cli;
pub mod clock;
pub mod nats;
pub mod operator;
pub mod serve;
pub mod shutdown;
pub mod startup;
pub mod telemetry;
