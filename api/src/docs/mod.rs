//! The documents the service publishes about itself: `GET /openapi.json`, `GET /asyncapi.json`, `GET /docs`,
//! `GET /docs/errors` and `GET /docs/quote-hash`.

mod error_page;
pub(crate) mod html;
mod quote_hash_page;
mod reference_page;

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

pub(crate) use self::{
    quote_hash_page::EXAMPLE as QUOTE_EXAMPLE,
    reference_page::{SCRIPT_PATH, script},
};
use super::{openapi, state::HttpState};

const STYLE: &str = include_str!("style.css");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The documents for one address of the service.
pub(super) struct Documents {
    openapi: Bytes,
    asyncapi: Bytes,
    reference: Bytes,
    errors: Bytes,
    quote_hash: Bytes,
    content_security_policy: HeaderValue,
    reference_security_policy: HeaderValue,
}

impl Documents {
    /// Makes the documents of a service that is reached at `base_url`.
    pub(super) fn new(base_url: &str) -> Self {
        let document = openapi::document(base_url);
        Self {
            reference: reference_page::render(document["info"]["title"].as_str().unwrap_or_default()).into(),
            errors: error_page::render().into(),
            quote_hash: quote_hash_page::render().into(),
            openapi: document.to_string().into(),
            asyncapi: protocol::document().to_string().into(),
            content_security_policy: content_security_policy(),
            reference_security_policy: reference_security_policy(),
        }
    }

    /// A page as an answer that may load nothing.
    pub(super) fn page(&self, page: &Bytes) -> Response {
        answer(page, &self.content_security_policy)
    }
}

fn answer(page: &Bytes, content_security_policy: &HeaderValue) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HTML),
        (header::CONTENT_SECURITY_POLICY, content_security_policy.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, page.clone()).into_response()
}

/// Nothing but the style that is in the page itself.
fn content_security_policy() -> HeaderValue {
    policy(&[&hash(STYLE)], "")
}

/// Besides, what Redoc needs: itself, the document, its icons, and the worker that searches, which it makes of its own text.
fn reference_security_policy() -> HeaderValue {
    let own = hash(reference_page::STYLE);
    let [empty, scroll_bars] = reference_page::SCRIPT_STYLES;
    policy(&[&own, empty, scroll_bars], "script-src 'self'; connect-src 'self'; img-src data:; worker-src blob:; ")
}

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

/// `GET /openapi.json`.
pub(super) async fn openapi(State(state): State<Arc<HttpState>>) -> Response {
    ([(header::CONTENT_TYPE, JSON)], state.documents().openapi.clone()).into_response()
}

/// `GET /asyncapi.json`.
pub(super) async fn asyncapi(State(state): State<Arc<HttpState>>) -> Response {
    ([(header::CONTENT_TYPE, JSON)], state.documents().asyncapi.clone()).into_response()
}

/// `GET /docs`.
pub(super) async fn reference(State(state): State<Arc<HttpState>>) -> Response {
    let documents = state.documents();
    answer(&documents.reference, &documents.reference_security_policy)
}

/// `GET /docs/errors`.
pub(super) async fn errors(State(state): State<Arc<HttpState>>) -> Response {
    let documents = state.documents();
    documents.page(&documents.errors)
}

/// `GET /docs/quote-hash`.
pub(super) async fn quote_hash(State(state): State<Arc<HttpState>>) -> Response {
    let documents = state.documents();
    documents.page(&documents.quote_hash)
}
