//! Real servers on loopback, for tests and for `gw-dev`: nats-server, anvil and a Solana runtime as child processes with
//! free ports and directories of their own, so that any number of them run side by side. Dropping a handle ends its
//! process.

pub mod anvil;
pub mod cluster;
pub mod denying;
pub mod holder;
pub mod nats;
pub mod natsfaults;
mod ports;
mod process;
pub mod surfnet;
pub mod tools;

pub use anvil::Anvil;
pub use cluster::NatsCluster;
pub use nats::NatsServer;
pub use ports::free_port;
pub use process::{Process, Signal};
pub use surfnet::Surfnet;
