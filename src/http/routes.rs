//! The table of routes, and the router made from it.

use std::sync::Arc;

use axum::{
    Router,
    http::Method,
    middleware,
    routing::{MethodRouter, get, post},
};

use super::{
    defaults,
    error::{ApiError, Code},
    health, payment_status, request_id,
    state::HttpState,
    submit_payment,
};

/// One route.
pub struct Route {
    /// Method it answers to.
    pub method: Method,
    /// Path, with parameters in braces.
    pub path: &'static str,
    handler: fn() -> MethodRouter<Arc<HttpState>>,
}

/// Every route there is.
pub const ROUTES: &[Route] = &[
    Route { method: Method::POST, path: "/v1/payments", handler: || post(submit_payment::handle) },
    Route { method: Method::GET, path: "/v1/payments/{payment_id}/status", handler: || get(payment_status::handle) },
    Route { method: Method::GET, path: "/v1/defaults", handler: || get(defaults::handle) },
    Route { method: Method::GET, path: "/healthz", handler: || get(health::live) },
    Route { method: Method::GET, path: "/readyz", handler: || get(health::ready) },
];

/// The API as a service: every response with `X-Request-Id`, every error as an ErrorResponse (spec 2.10).
pub fn router(state: Arc<HttpState>) -> Router {
    let router = ROUTES.iter().fold(Router::new(), |router, route| router.route(route.path, (route.handler)()));
    router
        .fallback(async || ApiError::from(Code::NOT_FOUND))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), request_id::finish))
        .with_state(state)
}
