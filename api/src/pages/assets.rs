//! The script and the style of the pages, which `web/build.sh` makes and which are built into the program.

use std::sync::LazyLock;

use axum::{
    http::{HeaderMap, HeaderValue},
    response::Response,
};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

use crate::gzip_script;

/// Where the script is. Its hash is part of the name: what is under one path never changes.
pub(crate) const SCRIPT_PATH: &str = concat!("/pay/page-", include_str!("../../../web/dist/page.hash"), ".js");
/// Its `ETag`.
const SCRIPT_TAG: &str = concat!("\"", include_str!("../../../web/dist/page.hash"), "\"");
/// The script, compressed.
const SCRIPT: &[u8] = include_bytes!("../../../web/dist/page.js.gz");

/// The style of the pages, which stands in each.
pub(super) const STYLE: &str = include_str!("../../../web/dist/page.css");

/// What the pages may load: their own style and script, the API of their own origin, and the pictures that wallets bring along.
pub(super) static CONTENT_SECURITY_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = BASE64.encode(&Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    // Base64 is legal in a header; should it ever not be, the page goes without style and script rather than without a policy.
    policy.try_into().unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"))
});

/// `GET` of the script.
pub(super) async fn script(headers: HeaderMap) -> Response {
    gzip_script::answer(&headers, SCRIPT_TAG, SCRIPT)
}
