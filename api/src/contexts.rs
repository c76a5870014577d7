//! `GET /contexts/{vocabulary}/{version}`: the JSON-LD contexts that signed documents name, byte for byte as they are
//! bundled (design §12).

use axum::{
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

use app::error::Code;
use proofs::contexts::BUNDLED;

use crate::error::ApiError;

/// The bytes under one name never change: other terms get a name of their own.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/ld+json");

pub(super) async fn handle(Path((vocabulary, version)): Path<(String, String)>) -> Result<Response, ApiError> {
    let asked = format!("{vocabulary}/{version}");
    let Some(context) = BUNDLED.iter().find(|context| context.path == asked) else {
        return Err(Code::NOT_FOUND.into());
    };
    let headers = [
        (header::CONTENT_TYPE, MEDIA_TYPE),
        (header::CACHE_CONTROL, CACHED),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, context.text).into_response())
}
