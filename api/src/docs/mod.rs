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

pub(crate) use self::quote_hash_page::EXAMPLE as QUOTE_EXAMPLE;
use super::{openapi, state::HttpState};
use protocol;

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
}

impl Documents {
    /// Makes the documents of a service that is reached at `base_url`.
    pub(super) fn new(base_url: &str) -> Self {
        let document = openapi::document(base_url);
        Self {
            reference: reference_page::render(&document, base_url).into(),
            errors: error_page::render().into(),
            quote_hash: quote_hash_page::render().into(),
            openapi: document.to_string().into(),
            asyncapi: protocol::document().to_string().into(),
            content_security_policy: content_security_policy(),
        }
    }

    /// A page as an answer that may load nothing.
    pub(super) fn page(&self, page: &Bytes) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HTML),
            (header::CONTENT_SECURITY_POLICY, self.content_security_policy.clone()),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        ];
        (headers, page.clone()).into_response()
    }
}

/// Nothing but the style that is in the page itself.
fn content_security_policy() -> HeaderValue {
    let style = BASE64.encode(&Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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
    documents.page(&documents.reference)
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
