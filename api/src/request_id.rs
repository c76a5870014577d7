//! The outermost layer: every response leaves with an `X-Request-Id`, and every error as an ErrorResponse.

use std::{any::Any, net::SocketAddr, sync::Arc};

use axum::{
    Json,
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::Instant;
use tracing::{Instrument, Span, field::Empty};

use app::error::Code;
use events::CommitId;
use trace::TraceParent;

use super::{body::Unread, deprecation::DeprecatedUse, long_poll::Arrival, state::HttpState};
use crate::error::ApiError;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_CHARS_MAX: usize = 128;

/// The id a request is known by in responses, logs and the journal's correlation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(String);

impl RequestId {
    /// The client's own, when it is one that can stand in logs as it is, else a new one.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b':');
        let sane = |text: &&str| (1..=REQUEST_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal);
        let own = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok()).filter(sane);
        Self(own.map_or_else(|| format!("req_{}", CommitId::random()), str::to_owned))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Says that the body of a response is the route's own, whatever its status.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnBody;

/// Says with such a response when to come again.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryAfter(pub(super) u64);

/// Runs a request and finishes its response.
pub(super) async fn finish(State(state): State<Arc<HttpState>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    request.extensions_mut().insert(Arrival(started));
    let request_id = RequestId::of(request.headers());
    request.extensions_mut().insert(request_id.clone());
    let deprecated = DeprecatedUse::default();
    request.extensions_mut().insert(deprecated.clone());
    let unread = Unread::default();
    request.extensions_mut().insert(unread.clone());
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
    let caller = state.callers.identify(peer, request.headers());
    request.extensions_mut().insert(caller.clone());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let span = tracing::info_span!("request", request_id = request_id.as_str(), %method, path);

    let work = span.in_scope(|| work_span(&request, &request_id));
    let response = next.run(request).instrument(work.clone()).instrument(span.clone()).await;
    work.record("status", response.status().as_u16());
    drop(work);
    let mut response = errors_as_json(response, &request_id, &state);
    caller.declare(response.headers_mut());
    deprecated.declare(response.headers_mut(), &state.http.base_url);
    unread.declare(response.headers_mut());
    // Only legal header characters are in it.
    if let Ok(value) = HeaderValue::from_str(request_id.as_str()) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    let elapsed = started.elapsed();
    if let Some(metrics) = state.metrics.get() {
        metrics.answered(route.as_ref().map(MatchedPath::as_str), &method, response.status(), elapsed);
    }
    let (status, elapsed_ms) = (response.status().as_u16(), elapsed.as_millis());
    span.in_scope(|| tracing::debug!(status, elapsed_ms, "answered"));
    response
}

/// The exported span of a write, linked to what its client says of its own trace. The use case puts it into the trace of its
/// payment. Reads have none: they are many, and change nothing.
fn work_span(request: &Request, request_id: &RequestId) -> Span {
    if !trace::is_on() || request.method() != Method::POST {
        return Span::none();
    }
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str);
    let span = tracing::info_span!(
        target: trace::TARGET, parent: None, "http",
        otel.name = %format_args!("POST {route}"), otel.kind = "server", request_id = request_id.as_str(), route,
        payment_id = Empty, status = Empty,
    );
    let said = request.headers().get_all(trace::TRACEPARENT).iter().filter_map(|value| value.to_str().ok());
    trace::link(&span, TraceParent::parse_only(said));
    span
}

/// The answer to a request whose handler panicked, which kills nothing but that request (spec 2.10).
pub(super) fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let said = panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
    tracing::error!(said, "a handler panicked");
    ApiError::from(Code::INTERNAL_ERROR).into_response()
}

fn errors_as_json(response: Response, request_id: &RequestId, state: &HttpState) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, own) = response.into_parts();
    if parts.extensions.remove::<OwnBody>().is_some() {
        let said = parts.extensions.remove::<RetryAfter>().map(|RetryAfter(seconds)| seconds);
        retry_after(&mut parts.headers, status, said, state);
        return Response::from_parts(parts, own);
    }
    let error = parts.extensions.remove::<ApiError>().unwrap_or_else(|| ApiError::of_status(status));
    if let Some(metrics) = state.metrics.get() {
        metrics.refused(error.0.code);
    }
    let said = error.0.retry_after_seconds();
    let body = Json(error.0.into_body(request_id.as_str(), &state.http.base_url)).into_response();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(body.headers().clone());
    retry_after(&mut parts.headers, status, said, state);
    Response::from_parts(parts, body.into_body())
}

/// Says when to come again, where coming again helps.
fn retry_after(headers: &mut HeaderMap, status: StatusCode, said: Option<u64>, state: &HttpState) {
    if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        let seconds = said.unwrap_or(state.http.retry_after_seconds);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
}
