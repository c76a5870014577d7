//! What a gateway answers before it is there: while it waits for NATS, for its streams, or for the end of a restore.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{OriginalUri, State},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
    routing::get,
};

use app::error::{Code, Error};
use config::HttpConfig;

use crate::{
    cors, health,
    request_id::{RequestId, X_REQUEST_ID},
};

const CAUSE: &str =
    "the gateway is starting: it waits for NATS, for its streams, or for the end of a restore; its log says which";

/// `/healthz` says that the process lives and is starting; everything else is answered with 503 and the cause.
pub fn router(config: &HttpConfig) -> Router {
    Router::new()
        .route("/healthz", get(health::starting))
        .fallback(refuse)
        .layer(cors::layer())
        .with_state(Arc::new(config.clone()))
}

async fn refuse(State(config): State<Arc<HttpConfig>>, OriginalUri(uri): OriginalUri, headers: HeaderMap) -> Response {
    let code = if uri.path() == "/readyz" { Code::NOT_READY } else { Code::SERVICE_UNAVAILABLE };
    let (error, request_id) = (Error::new(code, CAUSE), RequestId::of(&headers));
    let answer_headers =
        [(X_REQUEST_ID, request_id.as_str().to_owned()), (header::RETRY_AFTER, config.retry_after_seconds.to_string())];
    (error.status(), answer_headers, Json(error.into_body(request_id.as_str(), &config.base_url))).into_response()
}
