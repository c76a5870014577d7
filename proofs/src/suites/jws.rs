//! Detached JWS with unencoded payload (RFC 7797), as the older suites carry them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::Error;

/// The header of every such JWS.
pub(super) fn header(alg: &str) -> String {
    json!({"alg": alg, "b64": false, "crit": ["b64"]}).to_string()
}

/// What is signed: the header as it was encoded, a dot, and the bare payload.
pub(super) fn signing_input(encoded_header: &str, payload: &[u8]) -> Vec<u8> {
    [encoded_header.as_bytes(), b".", payload].concat()
}

/// Takes a JWS apart and gives its signing input and signature.
pub(super) fn open(jws: &str, alg: &'static str, payload: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let mut parts = jws.split('.');
    let (Some(encoded), Some(""), Some(signature), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(super::proof::member("jws", "is not a detached JWS"));
    };
    let wrong = Error::JwsHeader { alg };
    let text = URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    // Read under the rules for documents, so that a header that says something twice is none.
    let header = text.and_then(|text| crate::json::Document::parse(&text).ok()).ok_or(wrong.clone())?;
    if Value::Object(header.members().clone()) != json!({"alg": alg, "b64": false, "crit": ["b64"]}) {
        return Err(wrong);
    }
    let signature = URL_SAFE_NO_PAD
        .decode(signature)
        .map_err(|_| super::proof::member("jws", "has a signature that is not base64url"))?;
    Ok((signing_input(encoded, payload), signature))
}

/// Makes a JWS from a header and a signature over [`signing_input`].
pub(super) fn close(encoded_header: &str, signature: &[u8]) -> String {
    format!("{encoded_header}..{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A header as it stands in a JWS.
pub(super) fn encode(header: &str) -> String {
    URL_SAFE_NO_PAD.encode(header)
}
