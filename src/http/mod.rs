//! The HTTP API: one file a route, one table of routes ([`routes`]), one table of errors ([`error`]).
//!
//! Bodies are types of this module and nowhere else; each is turned once into or out of the types of `events` and
//! `projections`.

mod admission;
pub mod authorizer;
mod authorizers;
mod award_quote;
mod award_request;
mod batch_terms;
mod body;
mod bounded_journal;
mod bulkhead;
mod caller_secret;
mod checks;
mod claim;
mod contexts;
mod corridors;
mod cors;
mod credential;
mod current;
mod defaults;
mod deprecation;
mod docs;
mod envelope;
pub mod error;
mod evm_authorizer;
mod fields;
pub mod funds;
mod health;
mod hold;
mod horizons;
mod line;
mod open_quote_request;
mod open_windows;
pub mod openapi;
mod order;
mod payment_body;
mod payment_events;
mod payment_request;
mod payment_status;
mod payment_timeline;
mod payments;
mod prepare_payment;
mod quote_request;
mod quote_request_body;
mod quote_request_status;
mod quote_requests;
mod request_id;
mod resolve_payment;
pub mod routes;
mod schema;
mod sender_auth;
mod shared;
mod solana_authorizer;
mod state;
mod status_page;
mod submit_payment;
#[cfg(test)]
mod tests;
mod timeline_body;
mod tron_authorizer;
mod verify_payment;
mod writes;
pub mod x402;

pub use self::{
    admission::Admission,
    authorizer::{
        AuthorizationRequest, AuthorizeError, Authorized, Authorizer, Prepared, PreparedDraw, UnsignedMessage,
    },
    authorizers::Authorizers,
    current::CurrentViews,
    evm_authorizer::EvmAuthorizer,
    payments::Payments,
    quote_requests::QuoteRequests,
    request_id::RequestId,
    routes::router,
    solana_authorizer::{Approvals, SolanaAuthorizer},
    state::{HttpState, Readiness, Services},
    tron_authorizer::TronAuthorizer,
};
