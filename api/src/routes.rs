//! The table of routes, and the router made from it.

use std::sync::Arc;

use axum::{
    Router,
    extract::{MatchedPath, Request},
    http::Method,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, delete, get, post},
};
use tower_http::catch_panic::CatchPanicLayer;

use app::error::Code;
use net::callers::{Caller, Kind, price};

use super::{
    award_quote, contexts, cors, defaults, docs, documentation, give_address, health, http_metrics::HttpMetrics,
    mandates, open_quote_request, own_payments, pages, payment_batches, payment_events, payment_status,
    payment_timeline, prepare_payment, quote_request_status, request_id, resolve_payment, sessions, settlers,
    state::HttpState, verify_payment, webhooks, x402,
};
use crate::{error::ApiError, submit_payment};

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
    Route { method: Method::GET, path: "/v1/payments", handler: || get(own_payments::handle) },
    Route { method: Method::GET, path: "/v1/payments/{paymentId}/status", handler: || get(payment_status::handle) },
    Route { method: Method::GET, path: "/v1/payments/{paymentId}/timeline", handler: || get(payment_timeline::handle) },
    Route { method: Method::GET, path: "/v1/payments/{paymentId}/events", handler: || get(payment_events::handle) },
    Route { method: Method::POST, path: "/v1/payments/verify", handler: || post(verify_payment::handle) },
    Route { method: Method::POST, path: "/v1/payments/prepare", handler: || post(prepare_payment::handle) },
    Route { method: Method::POST, path: "/v1/payments/batches", handler: || post(payment_batches::handle) },
    Route { method: Method::POST, path: "/v1/payments/batches/prepare", handler: || post(payment_batches::prepare) },
    Route { method: Method::POST, path: "/v1/payments/mandates/prepare", handler: || post(mandates::prepare) },
    Route { method: Method::GET, path: "/v1/payments/resolve", handler: || get(resolve_payment::handle) },
    Route { method: Method::POST, path: "/v1/payments/quote-requests", handler: || post(open_quote_request::handle) },
    Route {
        method: Method::GET,
        path: "/v1/payments/quote-requests/{quoteRequestId}",
        handler: || get(quote_request_status::handle),
    },
    Route {
        method: Method::POST,
        path: "/v1/payments/quote-requests/{quoteRequestId}/award",
        handler: || post(award_quote::handle),
    },
    Route {
        method: Method::POST,
        path: "/v1/payments/quote-requests/{quoteRequestId}/address",
        handler: || post(give_address::handle),
    },
    Route { method: Method::POST, path: "/v1/sessions/challenges", handler: || post(sessions::challenge) },
    Route { method: Method::POST, path: "/v1/sessions", handler: || post(sessions::open) },
    Route { method: Method::POST, path: "/v1/webhooks", handler: || post(webhooks::register) },
    Route { method: Method::GET, path: "/v1/webhooks", handler: || get(webhooks::list) },
    Route { method: Method::GET, path: "/v1/webhooks/keys", handler: || get(webhooks::keys) },
    Route { method: Method::GET, path: "/v1/webhooks/{webhookId}", handler: || get(webhooks::show) },
    Route { method: Method::DELETE, path: "/v1/webhooks/{webhookId}", handler: || delete(webhooks::delete) },
    Route { method: Method::POST, path: "/v1/webhooks/{webhookId}/redeliver", handler: || post(webhooks::redeliver) },
    Route { method: Method::GET, path: "/v1/settlers", handler: || get(settlers::list) },
    Route { method: Method::GET, path: "/v1/settlers/{did}", handler: || get(settlers::show) },
    Route { method: Method::GET, path: "/v1/defaults", handler: || get(defaults::handle) },
    Route { method: Method::GET, path: "/x402/v1/supported", handler: || get(x402::supported::handle) },
    Route { method: Method::POST, path: "/x402/v1/verify", handler: || post(x402::verify::handle) },
    Route { method: Method::POST, path: "/x402/v1/settle", handler: || post(x402::settle::handle) },
    Route { method: Method::POST, path: "/x402/v1/offers", handler: || post(x402::offers::handle) },
    Route { method: Method::GET, path: "/healthz", handler: || get(health::live) },
    Route { method: Method::GET, path: "/readyz", handler: || get(health::ready) },
    Route { method: Method::GET, path: "/openapi.json", handler: || get(documentation::openapi) },
    Route { method: Method::GET, path: "/asyncapi.json", handler: || get(documentation::asyncapi) },
    Route { method: Method::GET, path: "/docs", handler: || get(documentation::reference) },
    Route { method: Method::GET, path: "/docs/errors", handler: || get(documentation::errors) },
    Route { method: Method::GET, path: "/docs/quote-hash", handler: || get(documentation::quote_hash) },
    Route { method: Method::GET, path: "/contexts", handler: || get(contexts::index) },
    Route { method: Method::GET, path: "/contexts/{vocabulary}/{version}", handler: || get(contexts::handle) },
];

/// The API as a service: every response with `X-Request-Id`, every error as an ErrorResponse (spec 2.10).
pub fn router(state: Arc<HttpState>) -> Router {
    let pages = || pages::PAGES.iter().map(|(path, _)| *path);
    let paths = || ROUTES.iter().map(|route| route.path).chain([docs::SCRIPT_PATH]).chain(pages());
    state.metrics.get_or_init(|| HttpMetrics::new(paths()));
    let router = ROUTES.iter().fold(Router::new(), |router, route| router.route(route.path, (route.handler)()));
    let router = pages::PAGES.iter().fold(router, |router, (path, handler)| router.route(path, handler()));
    router
        .route(docs::SCRIPT_PATH, get(documentation::script))
        .fallback(async || ApiError::from(Code::NOT_FOUND))
        .layer(middleware::from_fn(limit_reads))
        .layer(CatchPanicLayer::custom(request_id::panicked))
        .layer(cors::layer())
        .layer(middleware::from_fn_with_state(Arc::clone(&state), request_id::finish))
        .with_state(state)
}

/// Counts every request as a read that is not a write; what is unknown or has another method costs as much as one.
async fn limit_reads(request: Request, next: Next) -> Response {
    let is_write = request.method() == Method::POST
        && request
            .extensions()
            .get::<MatchedPath>()
            .is_some_and(|path| ROUTES.iter().any(|route| route.method == Method::POST && route.path == path.as_str()));
    let caller = request.extensions().get::<Caller>();
    match caller.filter(|_| !is_write).map_or(Ok(()), |caller| caller.spend(Kind::Reads, price::READ)) {
        Ok(()) => next.run(request).await,
        Err(refusal) => ApiError::from(refusal).into_response(),
    }
}
