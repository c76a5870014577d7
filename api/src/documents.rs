//! Documents that the service publishes about itself, as they are sent; [`crate::docs`] makes them.

use axum::body::Bytes;

/// The documents for one address of the service.
pub(crate) struct Documents {
    pub(crate) openapi: Bytes,
    pub(crate) asyncapi: Bytes,
    pub(crate) reference: Bytes,
    pub(crate) errors: Bytes,
    pub(crate) quote_hash: Bytes,
}
