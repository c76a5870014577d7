//! Reading a JSON body, in the order size, content type, JSON (design: order of checks).
//!
//! A body holds memory for as long as it arrives, so it has to keep a least rate. One that is refused is taken for a moment
//! more, because who is still sending may not read the answer before he is done; then the answer goes out, and the
//! connection ends.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{BodyDataStream, Bytes},
    extract::Request,
    http::{
        HeaderMap, HeaderValue,
        header::{CONNECTION, CONTENT_TYPE},
    },
};
use bytes::BytesMut;
use futures::StreamExt;
use tokio::time::{Instant, timeout, timeout_at};

use app::{admission::write_permits::BodyMemory, error::Code, request::body::JsonBody};
use net::callers::Caller;

use super::{deprecation::DeprecatedUse, state::HttpState};
use crate::error::ApiError;

/// How long a body may take at any rate: a segment that was lost on the way comes again within it.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes a second that it has to bring from then on.
const RATE_BYTES_MIN: u32 = 16 * 1_024;
/// Most that is taken of a body which is refused already, and for how long.
const DRAIN_BYTES_MAX: usize = 64 * 1_024;
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A body as it came, of a size that is accepted; nothing of it has been read.
#[derive(Debug)]
pub(super) struct RawBody {
    bytes: Bytes,
    content_type: Option<HeaderValue>,
    /// Where the use of members that are deprecated is noted.
    pub(super) deprecated: DeprecatedUse,
}

impl RawBody {
    /// Receives the body of `request`, with the memory that it takes.
    ///
    /// # Errors
    /// 413, 429 when the bodies of its caller take as much memory as they may, 503 when those of all do, and 400 when it does
    /// not arrive in time.
    pub(super) async fn receive(
        request: Request,
        caller: &Caller,
        state: &HttpState,
    ) -> Result<(Self, BodyMemory), ApiError> {
        let deprecated = request.extensions().get::<DeprecatedUse>().cloned().unwrap_or_default();
        let unread = Unread::of(&request);
        let content_type = request.headers().get(CONTENT_TYPE).cloned();
        let mut chunks = request.into_body().into_data_stream();
        match bytes(&mut chunks, caller, state).await {
            Ok((bytes, memory)) => Ok((Self { bytes, content_type, deprecated }, memory)),
            Err(refusal) => {
                drain(chunks, &unread).await;
                Err(refusal)
            }
        }
    }

    /// Its length, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
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
        let body = JsonBody::parse(self.bytes.into())?;
        self.deprecated.note(&body.members);
        Ok(body)
    }
}

/// The bytes of a body, and the memory they take.
async fn bytes(
    chunks: &mut BodyDataStream,
    caller: &Caller,
    state: &HttpState,
) -> Result<(Bytes, BodyMemory), ApiError> {
    // Memory is taken for what is there: what is only announced would cost nothing to announce.
    let mut memory = state.writes.memory(caller, 1)?;
    let (begun, limit) = (Instant::now(), state.http.body_bytes_max);
    let mut arrived = BytesMut::new();
    loop {
        let next = timeout_at(begun + time_for(arrived.len(), state), chunks.next()).await;
        let Some(chunk) = next.map_err(|_| too_slow(state))? else { return Ok((arrived.freeze(), memory)) };
        let chunk = chunk.map_err(|_| invalid("body could not be read"))?;
        let together = arrived.len() + chunk.len();
        if together > limit {
            let message = format!("body must have at most {limit} bytes");
            return Err(ApiError::new(Code::REQUEST_TOO_LARGE, message));
        }
        state.writes.more_memory(caller, &mut memory, together)?;
        arrived.extend_from_slice(&chunk);
    }
}

/// How long after its beginning a body of which so many bytes have arrived may be without more of them.
fn time_for(arrived: usize, state: &HttpState) -> Duration {
    let kept_pace = Duration::from_secs(1) * u32::try_from(arrived).unwrap_or(u32::MAX) / RATE_BYTES_MIN;
    (GRACE + kept_pace).min(Duration::from_millis(state.http.body_ms_max))
}

fn too_slow(state: &HttpState) -> ApiError {
    let (grace, most) = (GRACE.as_secs(), state.http.body_ms_max);
    invalid(format!(
        "body did not arrive in time: {RATE_BYTES_MIN} bytes have to come each second after the first {grace}, and all of it in {most} ms"
    ))
}

/// Takes what is still coming of a body that nobody wants, for a moment.
pub(super) async fn drain(mut chunks: BodyDataStream, unread: &Unread) {
    let rest = async {
        let mut taken = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            taken += chunk.len();
            if taken > DRAIN_BYTES_MAX {
                return false;
            }
        }
        true
    };
    if !timeout(DRAIN_MAX, rest).await.unwrap_or_default() {
        unread.0.store(true, Ordering::Relaxed);
    }
}

/// Whether something of a request's body was left where it was, so that no other request can follow it; shared between the
/// route and the layer that finishes the response.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    /// That of a request.
    pub(super) fn of(request: &Request) -> Self {
        request.extensions().get::<Self>().cloned().unwrap_or_default()
    }

    /// Says in the response's headers that the connection ends with it.
    pub(super) fn declare(&self, headers: &mut HeaderMap) {
        if self.0.load(Ordering::Relaxed) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(Code::INVALID_REQUEST, message)
}
