//! The table of routes. All but the three of the page are for operators alone.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use tokio::time::timeout;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{acts, error::Error, guard, installation, page, payment_routes, state::Console, turns};

/// Largest body: a thousand ids.
const BODY_BYTES_MAX: usize = 128 * 1024;
/// How long an answer may take, the body's way here included. An act goes on all the same.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The console as a service.
pub fn router(console: Arc<Console>) -> Router {
    let large = Router::new()
        .route("/api/payments/{id}", get(payment_routes::detail))
        .route("/api/parked", get(payment_routes::parked))
        .route("/api/streams", get(installation::streams))
        .route("/api/acts", get(acts::list))
        .route_layer(middleware::from_fn_with_state(turns::none_taken(), turns::in_turn));
    let api = Router::new()
        .route("/api/me", get(installation::me))
        .route("/api/payments", get(payment_routes::list))
        .route("/api/search", get(payment_routes::search))
        .route("/api/settlers", get(installation::settlers))
        .route("/api/verifiers", get(installation::verifiers))
        .route("/api/chains", get(installation::chains))
        .route("/api/gateways", get(installation::gateways))
        .route("/api/alarms", get(installation::alarms))
        .route("/api/graphs", get(installation::graphs))
        .route("/api/acts/{act}", post(acts::order))
        .merge(large)
        .fallback(async || Error::NotFound("there is nothing at this path"))
        .method_not_allowed_fallback(async || Error::MethodNotAllowed)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(in_time))
        .layer(middleware::from_fn_with_state(Arc::clone(&console), guard::operators_alone));
    guarded(page().fallback_service(api.with_state(console)))
}

/// What is answered while there is no console yet: the page, and of everything else that it is not there.
pub fn starting() -> Router {
    let cause = "the console is not there yet: it waits for NATS or for its streams; the gateway's log says which";
    guarded(page().fallback(async move || Error::Unavailable(cause.to_owned())))
}

fn page() -> Router {
    Router::new()
        .route("/", get(page::html))
        .route("/console.css", get(page::style))
        .route("/console.js", get(page::script))
}

fn guarded(router: Router) -> Router {
    router.layer(CatchPanicLayer::custom(panicked)).layer(middleware::from_fn(guard::secure))
}

async fn in_time(request: Request, next: Next) -> Response {
    let late = || Error::Unavailable("no answer in time".to_owned()).into_response();
    timeout(ANSWER_MAX, next.run(request)).await.unwrap_or_else(|_| late())
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(panic = text, "a route of the console panicked");
    Error::Failed("the gateway's log has what went wrong".to_owned()).into_response()
}
