//! Requests: the members of a body are read one by one, every fault named, and checked against the configuration.

pub mod award;
pub(crate) mod batch_terms;
pub mod body;
pub mod corridors;
pub mod credential;
pub(crate) mod echo;
pub mod envelope;
pub mod fields;
pub(crate) mod horizons;
pub mod mandate;
pub mod order;
pub mod payment;
mod proxies;
pub mod quote_request;
pub mod sender_auth;
