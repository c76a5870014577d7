//! HTTP client for nodes: answers bounded in time and size, and a pause for everybody where a node asks for one (429,
//! `Retry-After`).

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use reqwest::{
    Client, Response,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
    redirect::Policy,
};
use tokio::time::Instant;
use url::Url;

use sagas::ports::Transient;

/// Largest answer that is read. The receipts or logs of a full block fit several times over.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The pause after a refusal that names none.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause: nobody is silenced for long by one answer.
const PAUSE_MAX: Duration = Duration::from_secs(60);
const TOO_MANY_REQUESTS: u16 = 429;
const UNAVAILABLE: u16 = 503;

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The seconds of `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Whether the status is of success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why there is no answer. The texts hold nothing of the address: a path or query may be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpFault {
    /// The node asked to be left alone, and nothing was sent.
    #[error("paused for {} ms more", .0.as_millis())]
    Paused(Duration),
    /// There was no answer in time.
    #[error("no answer in time")]
    TimedOut,
    /// There is no connection.
    #[error("no connection")]
    Unconnected,
    /// The connection broke.
    #[error("no answer")]
    Broken,
    /// The answer is larger than what is read.
    #[error("more than {BODY_BYTES_MAX} bytes")]
    TooLarge,
}

impl HttpFault {
    /// The fault of a call to `place`.
    pub fn transient(self, place: &str) -> Transient {
        let text = format!("{place}: {self}");
        match self {
            Self::Paused(_) => Transient::rate_limited(text),
            Self::TimedOut | Self::Unconnected | Self::Broken | Self::TooLarge => Transient::unreachable(text),
        }
    }
}

/// Why there can be no client.
#[derive(Debug, thiserror::Error)]
#[error("HTTP client: {0}")]
pub struct ClientError(String);

/// A client of one node.
pub struct Http {
    client: Client,
    url: Url,
    origin: String,
    /// Until when nothing is sent.
    paused: Mutex<Option<Instant>>,
}

impl fmt::Debug for Http {
    /// The path and the query may hold a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Http").field(&self.origin).finish()
    }
}

impl Http {
    /// A client of the node at `url`, of which each call may take `timeout`. Redirects are not followed.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(url: Url, timeout: Duration) -> Result<Self, ClientError> {
        let client = Client::builder().timeout(timeout).connect_timeout(timeout).redirect(Policy::none());
        let client = client.build().map_err(|error| ClientError(error.to_string()))?;
        let origin = url.origin().ascii_serialization();
        Ok(Self { client, url, origin, paused: Mutex::new(None) })
    }

    /// The origin of its address, which is all that may be shown of it.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Posts JSON. An answer that asks to be left alone makes a pause for everybody.
    ///
    /// # Errors
    /// [`HttpFault`].
    pub async fn post(&self, body: Vec<u8>) -> Result<Answer, HttpFault> {
        if let Some(left) = self.pause_left() {
            return Err(HttpFault::Paused(left));
        }
        let request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        let response = request.send().await.map_err(|error| kind(&error))?;
        let (status, retry_after) = (response.status().as_u16(), asked_for(response.headers()));
        if status == TOO_MANY_REQUESTS || status == UNAVAILABLE && retry_after.is_some() {
            self.pause(retry_after);
        }
        Ok(Answer { status, retry_after, body: read(response).await? })
    }

    /// Nothing is sent for so long, by nobody, or for a second where it was not said how long.
    pub fn pause(&self, asked: Option<Duration>) {
        let until = Instant::now() + asked.unwrap_or(PAUSE).min(PAUSE_MAX);
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = Some(paused.map_or(until, |before| before.max(until)));
    }

    /// Returns when the node may be asked.
    pub async fn pause_over(&self) {
        if let Some(left) = self.pause_left() {
            tokio::time::sleep(left).await;
        }
    }

    fn pause_left(&self) -> Option<Duration> {
        let paused = *self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        paused.map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

/// The seconds of `Retry-After`. A date is not read: clocks differ.
fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

async fn read(mut response: Response) -> Result<Vec<u8>, HttpFault> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| kind(&error))? {
        if bytes.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(HttpFault::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn kind(error: &reqwest::Error) -> HttpFault {
    if error.is_timeout() {
        HttpFault::TimedOut
    } else if error.is_connect() {
        HttpFault::Unconnected
    } else {
        HttpFault::Broken
    }
}
