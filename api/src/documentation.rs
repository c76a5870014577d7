//! `GET /openapi.json`, `GET /asyncapi.json`, `GET /docs`, `GET /docs/errors` and `GET /docs/quote-hash`: what the service
//! publishes about itself; and the script of the reference.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    docs::{CONTENT_SECURITY_POLICY, REFERENCE_SECURITY_POLICY, SCRIPT, SCRIPT_TAG, documents, page},
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
    // The bytes under one name never change, so a browser need not ask a second time.
    let cached = [
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::ETAG, HeaderValue::from_static(SCRIPT_TAG)),
    ];
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    if known.any(|tag| tag == SCRIPT_TAG || tag == "*") {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    // Every browser that can run it takes gzip.
    let described = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8")),
        (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (cached, described, SCRIPT).into_response()
}
