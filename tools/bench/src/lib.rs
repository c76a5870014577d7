//! Measures the gateway against the figures of its design (§11): what the benches and those beside them (`bench/peers`) share.
//!
//! Everything runs on loopback, on a nats-server of its own with the repository's `nats.conf` (`sync_interval:
//! always`), and with the real `gw` as a process wherever HTTP is measured. Ratios are between figures of the same
//! run. Loads are bounded in number and time. `make bench` is how it is started; `tools/bench/README.md` says what is
//! measured, and how.

pub mod baseline;
pub mod console;
pub mod context;
pub mod crypto;
pub mod engine;
pub mod environment;
pub mod fanout;
pub mod http;
pub mod load;
pub mod machine;
pub mod node;
pub mod orders;
pub mod overload;
pub mod payment_commits;
pub mod program;
pub mod replay;
pub mod report;
pub mod scale;
pub mod size;
pub mod status;
pub mod submissions;
pub mod takeover;
pub mod world;
pub mod world_alone;
