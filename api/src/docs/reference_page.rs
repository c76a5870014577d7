//! The API reference: Redoc, a bundled script that draws the OpenAPI document of this gateway and searches it in the
//! browser. Neither the page nor the script needs another host.

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
pub(crate) const SCRIPT: &[u8] = include_bytes!("redoc/redoc.standalone.js.gz");
/// Its `ETag`.
pub(crate) const SCRIPT_TAG: &str = concat!("\"redoc-", version!(), "\"");

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
