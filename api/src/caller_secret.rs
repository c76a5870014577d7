//! The header `Caller-Secret`: what tells a caller apart that proves nothing.
//!
//! Its hash goes into the id of a quote-request, so nobody who does not know the secret can open one under a `request_id`
//! that he guessed. The client chooses it before its first call, which is why a retry finds the batch even when the first
//! answer was lost; a secret that came with that answer would be lost with it.

use axum::http::HeaderMap;

use app::error::Code;
use events::Hash32;

use crate::error::ApiError;

const CALLER_SECRET: &str = "caller-secret";
/// Fewest characters of a secret; with six bits each, 96 bits.
pub(super) const SECRET_CHARS_MIN: usize = 16;
/// Most characters.
pub(super) const SECRET_CHARS_MAX: usize = 128;

/// SHA-256 of the secret in `headers`, where there is one. The secret itself is kept nowhere.
///
/// # Errors
/// 400 with the rule.
pub(super) fn hash(headers: &HeaderMap) -> Result<Option<Hash32>, ApiError> {
    let mut values = headers.get_all(CALLER_SECRET).iter();
    let (first, second) = (values.next(), values.next());
    let Some(value) = first else { return Ok(None) };
    let legal = |bytes: &[u8]| {
        (SECRET_CHARS_MIN..=SECRET_CHARS_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
    };
    if second.is_some() || !legal(value.as_bytes()) {
        let rule =
            format!("Caller-Secret: must have {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} visible ASCII characters, once");
        return Err(ApiError::new(Code::INVALID_REQUEST, rule));
    }
    Ok(Some(Hash32::sha256(value.as_bytes())))
}
