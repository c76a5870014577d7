//! The `Deprecation` header (RFC 9745) of answers to requests that used a deprecated member (spec 9).

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value};

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// 2026-01-01: the contract names no date, and the members were deprecated before this service was there.
const SINCE: HeaderValue = HeaderValue::from_static("@1767225600");
/// Paths of the deprecated members.
const MEMBERS: [&[&str]; 2] = [&["originator_auth"], &["sender_auth", "verifiable_credential"]];

/// Whether a request used a deprecated member; shared between the route that reads the body and the layer that finishes
/// the response.
#[derive(Debug, Clone, Default)]
pub(super) struct DeprecatedUse(Arc<AtomicBool>);

impl DeprecatedUse {
    /// Notes what a body uses.
    pub(super) fn note(&self, members: &Map<String, Value>) {
        let uses = |path: &[&str]| {
            let member = path
                .split_first()
                .and_then(|(first, rest)| rest.iter().try_fold(members.get(*first)?, |value, name| value.get(name)));
            member.is_some()
        };
        if MEMBERS.into_iter().any(uses) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Says so in the response's headers.
    pub(super) fn declare(&self, headers: &mut HeaderMap, base_url: &str) {
        if !self.0.load(Ordering::Relaxed) {
            return;
        }
        headers.insert(DEPRECATION, SINCE);
        // The reference page shows a schema under its name where the schema names a section of the document.
        let link =
            format!("<{base_url}/docs#schema/VerifiableCredentialAuth>; rel=\"deprecation\"; type=\"text/html\"");
        if let Ok(link) = link.try_into() {
            headers.append(header::LINK, link);
        }
    }
}
