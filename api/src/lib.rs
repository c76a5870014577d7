//! The HTTP API: one file a route, one table of routes ([`routes`]), one table of errors ([`error`]).
//!
//! Bodies are types of this module and nowhere else; each is turned once into or out of the types of `events` and
//! `projections`.

mod award_quote;
mod body;
mod caller_secret;
mod contexts;
mod cors;
mod defaults;
mod deprecation;
mod docs;
pub mod error;
mod health;
mod hold;
mod open_quote_request;
pub mod openapi;
mod payment_events;
mod payment_status;
mod payment_timeline;
mod prepare_payment;
mod quote_request_status;
mod request_id;
mod resolve_payment;
pub mod routes;
mod state;
mod status_page;
mod submit_payment;
#[cfg(test)]
mod tests;
mod verify_payment;
mod write;
pub mod x402;

pub use self::{request_id::RequestId, routes::router, state::HttpState};
