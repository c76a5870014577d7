//! Reading a JSON body, in the order size, content type, JSON (design: order of checks).

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{HeaderValue, header::CONTENT_TYPE},
};
use bytes::BytesMut;
use futures::StreamExt;
use serde_json::{Map, Value};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

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
    /// Receives the body of `request`, with a permit for the memory that it takes.
    ///
    /// # Errors
    /// 413, 503 when the bodies of all requests take as much memory as they may, and 400 when it does not arrive in time.
    pub(super) async fn receive(request: Request, state: &HttpState) -> Result<(Self, OwnedSemaphorePermit), ApiError> {
        let deprecated = request.extensions().get::<DeprecatedUse>().cloned().unwrap_or_default();
        let content_type = request.headers().get(CONTENT_TYPE).cloned();
        let (bytes, room) = bytes(request.into_body(), state).await?;
        Ok((Self { bytes, content_type, deprecated }, room))
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

/// The bytes of `body`, and the memory they take.
async fn bytes(body: Body, state: &HttpState) -> Result<(Bytes, OwnedSemaphorePermit), ApiError> {
    // Memory is taken for what is there: what is only announced would cost nothing to announce.
    let mut room = state.writes.room(1)?;
    let mut arrived = BytesMut::new();
    receive(body, state, |chunk| {
        state.writes.more_room(&mut room, arrived.len() + chunk.len())?;
        arrived.extend_from_slice(&chunk);
        Ok(())
    })
    .await?;
    Ok((arrived.freeze(), room))
}

/// Receives a body that nobody wants, within the bounds of one that somebody does.
///
/// # Errors
/// 413, and 400 when it does not arrive in time.
pub(super) async fn drain(body: Body, state: &HttpState) -> Result<(), ApiError> {
    receive(body, state, |_| Ok(())).await
}

/// Gives the chunks of `body` to `take` as they arrive.
async fn receive(
    body: Body,
    state: &HttpState,
    mut take: impl FnMut(Bytes) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    let limit = state.http.body_bytes_max;
    let mut chunks = body.into_data_stream();
    let mut arrived = 0;
    let all = async {
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| invalid("body could not be read"))?;
            arrived += chunk.len();
            if arrived > limit {
                let message = format!("body must have at most {limit} bytes");
                return Err(ApiError::new(Code::REQUEST_TOO_LARGE, message));
            }
            take(chunk)?;
        }
        Ok(())
    };
    let within = Duration::from_millis(state.http.body_ms_max);
    let received = timeout(within, all).await;
    received.unwrap_or_else(|_| Err(invalid(format!("body did not arrive within {} ms", within.as_millis()))))
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::INVALID_REQUEST, message)
}
