//! The API reference: Redoc, a bundled script that draws the OpenAPI document of this gateway and searches it in the
//! browser. Neither the page nor the script needs another host.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::html::escape;

/// Redoc's version, which names the script: what is under one path never changes.
macro_rules! version {
    () => {
        "2.5.4"
    };
}

/// Where the script is.
pub(crate) const SCRIPT_PATH: &str = concat!("/docs/redoc-", version!(), ".js");

/// The script of the npm package, compressed; `scripts/redoc.sh` brings it here.
const SCRIPT: &[u8] = include_bytes!("redoc/redoc.standalone.js.gz");
const SCRIPT_TAG: &str = concat!("\"redoc-", version!(), "\"");

/// The style of the page around it.
pub(super) const STYLE: &str = include_str!("reference.css");
/// SHA-256 of the style elements that the script adds: an empty one, whose rules it then sets one by one, and that of its scroll
/// bars.
pub(super) const SCRIPT_STYLES: [&str; 2] =
    ["47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", "QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc="];

/// The fonts of the reader's system: none is fetched.
const THEME: &str = "{\"typography\":{\"fontFamily\":\"system-ui, sans-serif\",\"headings\":{\"fontFamily\":\"system-ui, \
                     sans-serif\"},\"code\":{\"fontFamily\":\"ui-monospace, monospace\"}}}";

/// The page.
pub(super) fn render(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n\
         <script src=\"{SCRIPT_PATH}\" defer></script>\n</head>\n<body>\n\
         <nav aria-label=\"Other pages\"><a href=\"/docs/errors\">Errors</a><a href=\"/docs/quote-hash\">The hash of a \
         quote</a><a href=\"/openapi.json\">OpenAPI document</a><a href=\"/asyncapi.json\">The settlers&#39; \
         protocol</a></nav>\n\
         <noscript><p>The reference is drawn by a script of this service. Without it there is the OpenAPI \
         document.</p></noscript>\n\
         <redoc spec-url=\"/openapi.json\" theme=\"{theme}\"></redoc>\n</body>\n</html>\n",
        title = escape(title),
        theme = escape(THEME),
    )
}

/// `GET` of the script. Its route is not in the table of routes: it is a part of the page and not of the API.
pub(crate) async fn script(headers: HeaderMap) -> Response {
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
