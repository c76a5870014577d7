//! Auditors' consumers: any NATS client replays the event streams by an ordered consumer, within bounds.
//!
//! A consumer is state of the server, and who makes one says where the server sends what it delivers: in the account of
//! the journal that could be a stream. nats-server has no permission for what stands inside a request. So auditors' requests
//! to make, show and delete consumers come here instead of to JetStream (nats.conf), and what is asked for in their name
//! is an ordered consumer of bounded cost or nothing (ADR 117). What a consumer delivers goes from the server to the
//! auditor.

mod allowance;
mod rules;
mod service;

pub use self::{allowance::CONSUMERS_MAX, service::Service};
