//! Cross-origin access: the API has no ambient credentials, so a page of any origin may call it.

use std::time::Duration;

use axum::http::{HeaderName, Method, header};
use tower_http::cors::{Any, CorsLayer};

use net::callers::{RATE_LIMIT, RATE_LIMIT_POLICY};

use super::position::POSITION;

/// How long a browser may remember the answer to a preflight.
const MAX_AGE: Duration = Duration::from_secs(86_400);

/// Any origin, no credentials, the headers this API reads and writes.
pub(super) fn layer() -> CorsLayer {
    let named = HeaderName::from_static;
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers([
            header::ACCEPT,
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            named("caller-secret"),
            named("last-event-id"),
            named("payment-signature"),
            named("prefer"),
            named(trace::TRACEPARENT),
            POSITION,
            named("x-request-id"),
        ])
        .expose_headers([
            header::ALLOW,
            header::RETRY_AFTER,
            named("deprecation"),
            named("payment-response"),
            named("preference-applied"),
            RATE_LIMIT,
            RATE_LIMIT_POLICY,
            POSITION,
            named("x-request-id"),
        ])
        .max_age(MAX_AGE)
}
