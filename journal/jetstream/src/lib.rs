//! The journal on NATS JetStream.
//!
//! [`store::NatsJournal`] keeps payments and batches in sharded streams; [`ledger`], [`budget`], [`parking`] and
//! [`checkpoint`] are the smaller books beside them. All make their requests through one module, which tells every outcome
//! of a request apart. [`raw`] reads what is stored without judging it, for auditors and exports; [`connection`] says how
//! a process connects to NATS.

pub mod budget;
pub mod checkpoint;
pub mod connection;
pub mod ledger;
pub mod parking;
pub mod raw;
mod requests;
pub mod store;

pub use requests::header_map;
