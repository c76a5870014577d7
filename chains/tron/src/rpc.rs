//! Endpoint: calls to one node, one pause for everybody when it asks for one, faults sorted where they arise.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::Instant;
use url::Url;

use chains::{config::ApiKey, single_flight::SingleFlight};
use sagas::ports::Transient;

use super::transport::{ClientError, Http, Reply, Transport};

/// The status of an answer.
const OK: u16 = 200;
/// Statuses by which a node asks to be left alone. TronGrid answers 403 to who asks too often, too, which others can bring about.
const PAUSING: [u16; 3] = [403, 429, 503];
/// Longest text of a node that is kept, in characters: it ends up in events and logs.
const TEXT_CHARS_MAX: usize = 400;
/// The pause after a refusal that names none.
const PAUSE: Duration = Duration::from_secs(5);
/// Longest pause: nobody is silenced for long by one answer.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What came of a call that gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// No answer, or none that can be read.
    #[error("{0}")]
    Unanswered(Transient),
    /// The node itself refused the request.
    #[error("{0}")]
    Rejected(String),
}

impl From<Fault> for Transient {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unanswered(fault) => fault,
            Fault::Rejected(text) => Self::contradiction(text),
        }
    }
}

impl From<Transient> for Fault {
    fn from(fault: Transient) -> Self {
        Self::Unanswered(fault)
    }
}

/// The bytes of an answer that several read.
pub(super) type Bytes = Arc<[u8]>;
type Answer = Result<Bytes, Fault>;

/// The endpoint.
pub(super) struct Rpc {
    transport: Arc<dyn Transport>,
    endpoint: String,
    /// Until when nothing is sent.
    paused: Mutex<Option<Instant>>,
    /// By path and body.
    reads: SingleFlight<(String, String), Answer>,
}

impl fmt::Debug for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rpc").field(&self.endpoint).finish()
    }
}

impl Rpc {
    /// The endpoint whose calls are under `url`; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(url: &Url, timeout: Duration, api_key: Option<&ApiKey>) -> Result<Self, ClientError> {
        // Only the origin goes into messages: paths and queries of providers hold keys.
        let endpoint = url.origin().ascii_serialization();
        Ok(Self::over(endpoint, Arc::new(Http::new(url, timeout, api_key)?)))
    }

    /// The endpoint at the end of `transport`, which messages call `name`.
    pub fn over(name: String, transport: Arc<dyn Transport>) -> Self {
        Self { transport, endpoint: name, paused: Mutex::new(None), reads: SingleFlight::default() }
    }

    /// The origin of its address, which is all that may be shown of it.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Reads what `path`, for example `wallet/getblock`, answers to `body`; once for all who want to read it at the same time.
    ///
    /// # Errors
    /// [`Fault`]; at once, without anything sent, while the endpoint wants to be left alone.
    pub async fn read<R: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<R, Fault> {
        let answer = self.read_bytes(path, body).await?;
        parsed(&self.place(path), &answer)
    }

    /// As [`read`](Self::read), before the answer is parsed.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_bytes(&self, path: &str, body: &Value) -> Answer {
        let key = (path.to_owned(), body.to_string());
        self.reads.read(&key, || async { self.answer(path, body).await.map(Arc::from) }).await
    }

    /// Posts `body` to `path`, for example `wallet/broadcasthex`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn post_bytes(&self, path: &str, body: &Value) -> Answer {
        self.answer(path, body).await.map(Arc::from)
    }

    fn place(&self, path: &str) -> String {
        format!("{path} at {}", self.endpoint)
    }

    fn unanswered(&self, path: &str, what: impl fmt::Display) -> Fault {
        Fault::Unanswered(Transient::unreachable(format!("{}: {what}", self.place(path))))
    }

    async fn answer(&self, path: &str, body: &Value) -> Result<Vec<u8>, Fault> {
        if let Some(left) = self.pause_left() {
            let what = format!("{}: paused for {} ms more", self.place(path), left.as_millis());
            return Err(Fault::Unanswered(Transient::rate_limited(what)));
        }
        let reply = self.transport.post(path, body).await.map_err(|silence| self.unanswered(path, silence))?;
        if reply.status != OK {
            return Err(Fault::Unanswered(self.status_fault(&self.place(path), &reply)));
        }
        let bytes = reply.body;
        match refusal(&bytes) {
            Some(error) => Err(Fault::Rejected(format!("{}: {}", self.place(path), shortened(&error)))),
            None => Ok(bytes),
        }
    }

    /// What a status other than 200 says. Where it asks to be left alone, nothing is sent for a while.
    fn status_fault(&self, place: &str, reply: &Reply) -> Transient {
        let what = format!("{place}: HTTP status {}", reply.status);
        if PAUSING.contains(&reply.status) {
            let pause_ms = self.pause(reply.retry_after.as_deref().and_then(asked_for)).as_millis();
            return Transient::rate_limited(format!("{what}, nothing is sent for {pause_ms} ms"));
        }
        Transient::of_http_status(reply.status, what)
    }

    fn pause_left(&self) -> Option<Duration> {
        let paused = *self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        paused.map(|until| until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Nothing is sent for that long, by nobody; how long it is.
    fn pause(&self, asked: Option<Duration>) -> Duration {
        let pause = asked.unwrap_or(PAUSE).min(PAUSE_MAX);
        let until = Instant::now() + pause;
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        *paused = Some(paused.map_or(until, |before| before.max(until)));
        pause
    }
}

/// What `answer`, from `place`, says.
pub(super) fn parsed<R: DeserializeOwned>(place: &str, answer: &[u8]) -> Result<R, Fault> {
    serde_json::from_slice(answer).map_err(|error| {
        let text = format!("{place}: unreadable answer: {}", shortened(&error.to_string()));
        Fault::Unanswered(Transient::unreachable(text))
    })
}

/// The address under which the calls are; in words why `text` is none.
pub(super) fn base(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error: url::ParseError| format!("is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("must begin with http:// or https:// and a host".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query and no fragment: a key goes into api_key".to_owned());
    }
    let last = url.path().trim_end_matches('/').rsplit('/').next();
    if let Some("wallet" | "walletsolidity" | "jsonrpc") = last {
        return Err(
            "must end before /wallet and /walletsolidity, which both are under it; /jsonrpc is not asked".to_owned()
        );
    }
    Ok(url)
}

/// `text`, no longer than what is kept of a node's words.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// The seconds of `Retry-After`. A date is not read: clocks differ.
fn asked_for(retry_after: &str) -> Option<Duration> {
    retry_after.trim().parse().ok().map(Duration::from_secs)
}

/// Nodes say that they refuse in a member of an answer with status 200.
fn refusal(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Refusal {
        #[serde(rename = "Error")]
        error: Option<Value>,
    }
    // A list is read as a struct, too, by position.
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let error = serde_json::from_slice::<Refusal>(body).ok()?.error?;
    Some(error.as_str().map_or_else(|| error.to_string(), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_from_answers() {
        assert_eq!(refusal(br#" {"Error":"lack of computing resources"}"#).unwrap(), "lack of computing resources");
        assert_eq!(refusal(br#"{"Error":{"a":1}}"#).unwrap(), r#"{"a":1}"#);
        for answer in ["{}", r#"[{"Error":"x"}]"#, r#"["x"]"#, r#"{"id":"00"}"#, "", "nonsense"] {
            assert_eq!(refusal(answer.as_bytes()), None, "{answer}");
        }
    }

    #[test]
    fn a_pause_is_in_seconds() {
        assert_eq!(asked_for("7"), Some(Duration::from_secs(7)));
        for other in ["", "-1", "1.5", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(asked_for(other), None, "{other}");
        }
    }
}
