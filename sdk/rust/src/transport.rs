//! Transport: one HTTP exchange with a gateway, in bounded time and memory.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect,
};
use serde::de::DeserializeOwned;
use url::Url;

use crate::error::{Error, ErrorBody, NoAnswer};

/// Longest that one exchange takes: a submission is held for 30 seconds at most.
const EXCHANGE_MAX: Duration = Duration::from_secs(60);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How much of a payment an answer was made from; see ADR 124.
pub(crate) const POSITION: HeaderName = HeaderName::from_static("x-position");
/// What tells a caller apart that proves nothing; see ADR 93.
pub(crate) const CALLER_SECRET: HeaderName = HeaderName::from_static("caller-secret");
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// What is asked of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub method: Method,
    pub url: Url,
    /// The very bytes that are sent each time.
    pub body: Option<Bytes>,
    pub headers: HeaderMap,
}

/// An answer that is not an error.
#[derive(Debug)]
pub(crate) struct Answered<T> {
    pub value: T,
    pub position: Option<String>,
}

/// The connections.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    http: reqwest::Client,
}

impl Transport {
    pub(crate) fn new() -> Result<Self, Error> {
        // A gateway does not redirect; whoever does is somebody else.
        let client = reqwest::Client::builder().connect_timeout(CONNECT_MAX).redirect(redirect::Policy::none());
        let http = client.build().map_err(|error| Error::Invalid(format!("no HTTP client: {error}")))?;
        Ok(Self { http })
    }

    /// Makes the call once.
    pub(crate) async fn once<T: DeserializeOwned>(&self, call: &Call) -> Result<Answered<T>, Error> {
        let exchange = async {
            let response = self.open(call).await?;
            let position = response.headers().get(POSITION).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let bytes = self.accepted(call, response).await?;
            let value = serde_json::from_slice(&bytes)
                .map_err(|error| NoAnswer::new(format!("{}: the answer cannot be read: {error}", call.url)))?;
            Ok(Answered { value, position })
        };
        let late = |_| NoAnswer::new(format!("{}: no answer within {} s", call.url, EXCHANGE_MAX.as_secs()));
        tokio::time::timeout(EXCHANGE_MAX, exchange).await.map_err(late)?
    }

    /// Sends the call, and waits for the head of the answer.
    pub(crate) async fn open(&self, call: &Call) -> Result<Response, Error> {
        let mut request = self.http.request(call.method.clone(), call.url.clone()).headers(call.headers.clone());
        if let Some(body) = &call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        // reqwest's own text hides the cause behind the address.
        let lost = |error: reqwest::Error| NoAnswer::new(format!("{}: {}", call.url, causes(&error)));
        Ok(request.send().await.map_err(lost)?)
    }

    /// The body of an answer of success; otherwise what the gateway refuses, or that nothing is known.
    pub(crate) async fn accepted(&self, call: &Call, mut response: Response) -> Result<Vec<u8>, Error> {
        let status = response.status();
        let after = retry_after(response.headers());
        let mut bytes = Vec::new();
        let lost = |reason: String| NoAnswer { reason: format!("{}: {reason}", call.url), retry_after: after };
        while let Some(chunk) = response.chunk().await.map_err(|error| lost(causes(&error)))? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(lost(format!("the answer has more than {ANSWER_BYTES_MAX} bytes")).into());
            }
            bytes.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(bytes);
        }
        let body = serde_json::from_slice::<ErrorBody>(&bytes).ok();
        match body.and_then(|body| body.into_refusal(status.as_u16(), after)) {
            Some(refusal) => Err(refusal.into()),
            // Not a gateway's words: a proxy in between, or a panic (spec 2.10).
            None if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(lost(format!("status {status}")).into())
            }
            None => Err(Error::Invalid(format!("{} is not a gateway's: status {status}", call.url))),
        }
    }
}

/// The `Retry-After` of an answer, in seconds; a date is not what gateways send.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// `Prefer: wait=N`.
pub(crate) fn prefer_wait(hold: Duration) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::try_from(format!("wait={}", hold.as_secs())) {
        headers.insert(PREFER, value);
    }
    headers
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
