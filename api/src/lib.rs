//! The HTTP API: one file a route, and one table of routes, [`routes`].
//!
//! A handler reads a body, calls one use case of the crate `app`, and answers with what it says. What the service says about
//! itself is made in `openapi` and `docs`.

mod award_quote;
mod body;
mod caller_secret;
mod contexts;
mod cors;
mod defaults;
mod deprecation;
mod docs;
mod documentation;
mod documents;
mod error;
mod give_address;
mod gzip_script;
mod health;
mod http_metrics;
mod long_poll;
mod mandates;
mod open_quote_request;
pub mod openapi;
mod own_payments;
mod pages;
mod parameters;
mod payment_batches;
mod payment_events;
mod payment_status;
mod payment_timeline;
mod position;
mod prepare_payment;
mod quote_request_status;
mod request_id;
mod resolve_payment;
pub mod routes;
mod sessions;
mod settlers;
pub mod starting;
mod state;
mod submit_payment;
#[cfg(test)]
mod tests;
mod verify_payment;
mod webhooks;
mod worked_quote;
mod write;
mod x402;

pub use self::state::HttpState;
