//! Reading a JSON body, in the order size, content type, JSON (design: order of checks).

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Request},
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use events::codec::UniqueValue;

use super::{
    deprecation::DeprecatedUse,
    error::{ApiError, Code},
    state::HttpState,
};

/// A body as it came, of a size that is accepted; nothing of it has been read.
#[derive(Debug)]
pub(super) struct RawBody {
    bytes: Bytes,
    content_type: Option<HeaderValue>,
    /// Where the use of members that are deprecated is noted.
    pub(super) deprecated: DeprecatedUse,
}

/// A body that is a JSON object without repeated keys.
#[derive(Debug)]
pub(super) struct JsonBody {
    /// The body as it came.
    pub(super) text: String,
    /// Its members.
    pub(super) members: Map<String, Value>,
}

impl RawBody {
    /// Receives the body of `request`.
    ///
    /// # Errors
    /// 413, and 400 when it does not arrive in time.
    pub(super) async fn receive(request: Request, state: &HttpState) -> Result<Self, ApiError> {
        let deprecated = request.extensions().get::<DeprecatedUse>().cloned().unwrap_or_default();
        let content_type = request.headers().get(CONTENT_TYPE).cloned();
        Ok(Self { bytes: bytes(request, state).await?, content_type, deprecated })
    }

    /// Reads it.
    ///
    /// # Errors
    /// 400.
    pub(super) fn json(self) -> Result<JsonBody, ApiError> {
        let is_json = self.content_type.as_ref().and_then(|value| value.to_str().ok()).is_some_and(|value| {
            let media_type = value.split(';').next().unwrap_or_default().trim();
            media_type.eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            return Err(invalid("Content-Type must be application/json"));
        }
        let text = String::from_utf8(self.bytes.into()).map_err(|_| invalid("body must be UTF-8"))?;
        let value = serde_json::from_str::<UniqueValue>(&text);
        match value
            .map(UniqueValue::into_inner)
            .map_err(|error| invalid(format!("body is not acceptable JSON: {error}")))?
        {
            Value::Object(members) => {
                self.deprecated.note(&members);
                Ok(JsonBody { text, members })
            }
            _ => Err(invalid("body must be a JSON object")),
        }
    }
}

async fn bytes(mut request: Request, state: &HttpState) -> Result<Bytes, ApiError> {
    let limit = state.http.body_bytes_max;
    DefaultBodyLimit::max(limit).apply(&mut request);
    let within = Duration::from_millis(state.http.body_ms_max);
    let Ok(read) = timeout(within, Bytes::from_request(request, &())).await else {
        return Err(invalid(format!("body did not arrive within {} ms", within.as_millis())));
    };
    read.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            ApiError::new(Code::REQUEST_TOO_LARGE, format!("body must have at most {limit} bytes"))
        }
        _ => invalid("body could not be read"),
    })
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::INVALID_REQUEST, message)
}
