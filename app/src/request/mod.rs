//! What callers ask for: the members of a body read one by one, every fault named, and checked against the configuration.

pub mod award;
pub mod batch_terms;
pub mod body;
pub mod corridors;
pub mod credential;
pub mod envelope;
pub mod fields;
pub mod horizons;
pub mod order;
pub mod payment;
pub mod quote_request;
pub mod sender_auth;
