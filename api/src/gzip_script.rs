//! Scripts that are built into the program: compressed, and under a path that names their version.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

/// The answer to a `GET` of `script` with these headers. `tag` is its `ETag`. The bytes under one path never change, so a browser need
/// not ask a second time.
pub(super) fn answer(headers: &HeaderMap, tag: &'static str, script: &'static [u8]) -> Response {
    let cached = [
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        (header::ETAG, HeaderValue::from_static(tag)),
    ];
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    if known.any(|known| known == tag || known == "*") {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    // Every browser that can run it takes gzip.
    let described = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8")),
        (header::CONTENT_ENCODING, HeaderValue::from_static("gzip")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (cached, described, script).into_response()
}
