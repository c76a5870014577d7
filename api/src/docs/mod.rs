//! The documents the service publishes about itself: the OpenAPI document, the settlers' protocol, the reference page, the
//! pages of errors and of the quote hash.

mod error_page;
pub(crate) mod html;
mod quote_hash_page;
mod reference_page;

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

pub(crate) use self::reference_page::{SCRIPT, SCRIPT_PATH, SCRIPT_TAG};
use crate::{documents::Documents, openapi, state::HttpState};

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The documents of the service, made when they are first asked for.
pub(crate) fn documents(state: &HttpState) -> &Documents {
    state.documents.get_or_init(|| make(&state.http.base_url))
}

/// The documents of a service that is reached at `base_url`.
fn make(base_url: &str) -> Documents {
    let document = openapi::document(base_url);
    Documents {
        reference: reference_page::render(document["info"]["title"].as_str().unwrap_or_default()).into(),
        errors: error_page::render().into(),
        quote_hash: quote_hash_page::render().into(),
        openapi: document.to_string().into(),
        asyncapi: protocol_documents::document().to_string().into(),
    }
}

/// A page as an answer that may load what its policy says.
pub(crate) fn page(page: &Bytes, content_security_policy: &HeaderValue) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HTML),
        (header::CONTENT_SECURITY_POLICY, content_security_policy.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, page.clone()).into_response()
}

/// What pages may load: nothing but the style that is in the page itself.
pub(crate) static CONTENT_SECURITY_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| policy(&[&hash(html::STYLE)], ""));

/// What the reference may load: besides its style what Redoc needs, which is itself, the document, its icons, and the worker
/// that searches, which it makes of its own text.
pub(crate) static REFERENCE_SECURITY_POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let own = hash(reference_page::STYLE);
    let [empty, scroll_bars] = reference_page::SCRIPT_STYLES;
    policy(&[&own, empty, scroll_bars], "script-src 'self'; connect-src 'self'; img-src data:; worker-src blob:; ")
});

fn hash(style: &str) -> String {
    BASE64.encode(&Sha256::digest(style))
}

/// Styles by their SHA-256, and what `more` allows.
fn policy(styles: &[&str], more: &str) -> HeaderValue {
    let styles: Vec<String> = styles.iter().map(|hash| format!("'sha256-{hash}'")).collect();
    let policy = format!(
        "default-src 'none'; style-src {}; {more}base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        styles.join(" ")
    );
    // Base64 is legal in a header; should it ever not be, the page goes without its style rather than without a policy.
    policy.try_into().unwrap_or(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"))
}
