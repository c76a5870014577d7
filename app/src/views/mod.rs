//! Views: what callers are shown of payments and quote-requests. They are the read models, views that are as new as the
//! journal, and the bodies they are shown as.

pub(crate) mod auction_progress;
mod deposit_address_body;
pub mod fresh;
pub(crate) mod heads;
pub mod payment_body;
pub mod payments;
pub mod quote_request_body;
pub mod quote_requests;
mod single_flight;
pub mod timeline_body;
pub mod verifier;
