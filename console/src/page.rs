//! The page, whose script and style `web/build.sh` makes and which are built into the program. It loads nothing from elsewhere.

use axum::{
    http::{HeaderValue, header},
    response::{Html, IntoResponse},
};

/// What a page of this listener may load: script and style of its own origin, and its API.
pub(crate) const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
const HTML: &str = include_str!("../../web/data/console.html");
const STYLE: &str = include_str!("../../web/dist/console.css");
/// Compressed; every browser that can run it takes gzip.
const SCRIPT: &[u8] = include_bytes!("../../web/dist/console.js.gz");

/// The page.
pub(crate) async fn html() -> impl IntoResponse {
    Html(HTML)
}

/// Its style.
pub(crate) async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// Its script.
pub(crate) async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8"), (header::CONTENT_ENCODING, "gzip")], SCRIPT)
}
