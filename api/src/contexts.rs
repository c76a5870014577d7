//! `GET /contexts`, the index, and `GET /contexts/{vocabulary}/{version}`: the JSON-LD contexts that signed documents name,
//! byte for byte as they are bundled (design §12).

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;

use app::error::Code;
use proofs::contexts::BUNDLED;

use crate::error::ApiError;

/// What a context says does not change: other terms get a name of their own.
const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/ld+json");

/// Where this service has the contexts that documents name.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ContextIndex")]
pub(super) struct IndexBody {
    /// Path of each context, by the URL under which documents name it.
    contexts: BTreeMap<&'static str, String>,
}

pub(super) async fn index() -> Json<IndexBody> {
    let path = |path: &str| format!("/contexts/{path}");
    Json(IndexBody { contexts: BUNDLED.iter().map(|context| (context.url, path(context.path))).collect() })
}

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
