//! The use cases of the gateway: no axum and no connection. JSON bodies and status codes are known here, because they are the
//! contract.
//!
//! One file a use case: [`submit`], [`rehearse`], [`prepare`], [`open_quote_request`], [`award`], [`resolve`], [`timeline`],
//! and the two of [`x402`]. [`request`] reads what callers ask for and checks it by itself; [`authorization`] checks what
//! payers signed, and [`funds`] whether they hold it; [`sessions`] say who a caller has proven to be, and [`own_payments`]
//! are what is his; [`settlers`] is what is on record of settlers; [`admission`] decides whether something new may be taken at all,
//! `idempotency` who holds a key, and `existing` what a refused retry is answered with; [`views`] are what callers are
//! shown, and `long_poll` holds them until there is something new. What goes wrong is an [`error::Error`] with an
//! [`error::Code`] of the one table that there is.
//!
//! The crate knows no web framework; the crate `api` puts it on the wire.

pub mod admission;
mod app;
pub mod authorization;
pub mod award;
pub mod bulkhead;
mod connected;
pub mod deposit_address;
pub mod error;
mod existing;
mod families;
pub mod funds;
mod idempotency;
mod list_query;
mod long_poll;
pub mod mandates;
pub mod open_quote_request;
pub mod own_payments;
pub mod payment_batches;
pub mod payment_identifiers;
pub mod prepare;
pub mod rehearse;
pub mod request;
pub mod resolve;
pub mod schema;
pub mod sessions;
pub mod settlers;
pub mod submit;
pub mod timeline;
pub mod views;
pub mod webhooks;
pub mod x402;

pub use self::{
    app::{App, Readiness, Services},
    views::heads::ChainHeads,
};
