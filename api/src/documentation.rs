//! `GET /openapi.json`, `GET /asyncapi.json`, `GET /docs`, `GET /docs/errors` and `GET /docs/quote-hash`: what the service
//! publishes about itself; and the script of the reference.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};

use super::{
    docs::{CONTENT_SECURITY_POLICY, REFERENCE_SECURITY_POLICY, SCRIPT, SCRIPT_TAG, documents, page},
    gzip_script,
    state::HttpState,
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// `GET /openapi.json`.
pub(super) async fn openapi(State(state): State<Arc<HttpState>>) -> Response {
    ([(header::CONTENT_TYPE, JSON)], documents(&state).openapi.clone()).into_response()
}

/// `GET /asyncapi.json`.
pub(super) async fn asyncapi(State(state): State<Arc<HttpState>>) -> Response {
    ([(header::CONTENT_TYPE, JSON)], documents(&state).asyncapi.clone()).into_response()
}

/// `GET /docs`.
pub(super) async fn reference(State(state): State<Arc<HttpState>>) -> Response {
    let documents = documents(&state);
    page(&documents.reference, &REFERENCE_SECURITY_POLICY)
}

/// `GET /docs/errors`.
pub(super) async fn errors(State(state): State<Arc<HttpState>>) -> Response {
    let documents = documents(&state);
    page(&documents.errors, &CONTENT_SECURITY_POLICY)
}

/// `GET /docs/quote-hash`.
pub(super) async fn quote_hash(State(state): State<Arc<HttpState>>) -> Response {
    let documents = documents(&state);
    page(&documents.quote_hash, &CONTENT_SECURITY_POLICY)
}

/// `GET` of the script. Its route is not in the table of routes: it is a part of the page and not of the API.
pub(super) async fn script(headers: HeaderMap) -> Response {
    gzip_script::answer(&headers, SCRIPT_TAG, SCRIPT)
}
