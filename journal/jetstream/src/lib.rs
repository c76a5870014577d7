//! The journal (event store) on NATS JetStream.
//!
//! [`store::NatsJournal`] keeps payments and batches in sharded streams; [`ledger`], [`budget`], [`parking`], [`operator_acts`]
//! and [`checkpoint`] keep the smaller records. All make their requests through one module with a distinct result for every
//! outcome. [`raw`] reads stored messages without interpreting them, for auditors and exports, and [`refill`] puts them back
//! into empty streams; [`connection`] holds the credentials and options of a connection, [`rate_limited`] bounds what is heard
//! over it, [`headerless`] is a connection for what untrusted clients write, and [`last_message`] reads what they stored;
//! [`server_clock`] is the time that all who share the servers agree about.

pub mod budget;
pub mod checkpoint;
pub mod connection;
pub mod headerless;
pub mod last_message;
mod lease;
pub mod ledger;
pub mod log;
pub mod operator_acts;
pub mod parking;
pub mod rate_limited;
pub mod raw;
pub mod refill;
mod requests;
pub mod server_clock;
mod shard_worker;
pub mod store;

pub use requests::header_map;
