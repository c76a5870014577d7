//! The HTTP API: one file a route, one table of routes ([`routes`]), one table of errors ([`error`]).
//!
//! Bodies are types of this module and nowhere else; each is turned once into or out of the types of `events` and
//! `projections`.

pub mod authorizer;
mod body;
mod corridors;
mod credential;
mod defaults;
pub mod error;
mod evm_authorizer;
mod fields;
mod health;
mod payment_body;
mod payment_request;
mod payment_status;
mod payments;
mod request_id;
pub mod routes;
mod state;
mod submit_payment;
#[cfg(test)]
mod tests;

pub use self::{
    authorizer::{AuthorizationRequest, AuthorizeError, Authorized, Authorizer},
    evm_authorizer::EvmAuthorizer,
    payments::Payments,
    request_id::RequestId,
    routes::router,
    state::{HttpState, Readiness, Services},
};
