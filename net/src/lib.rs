//! HTTP with untrusted clients, in both directions.
//!
//! [`server`] listens, with bounds on what a connection may hold on to and for how long; [`callers`] tells callers apart
//! and says how much each may ask for (rate limits, admission permits); [`ssrf_guard`] makes the calls to addresses that a
//! client named, and to none inside the operator's own network. The API and the verifier stand on this crate.

pub mod callers;
pub mod origin;
mod public_address;
pub mod server;
pub mod ssrf_guard;
