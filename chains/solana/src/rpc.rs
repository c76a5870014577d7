//! JSON-RPC endpoint: calls with limits of time and size, faults sorted where they arise.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::Url;

use chains::{
    nodes::http::{ClientError, Http},
    single_flight::SingleFlight,
};
use sagas::ports::Transient;

use super::transport::Transport;

/// What providers answer, instead of the HTTP status, to whoever asks too often.
const RATE_LIMITED_CODES: [i64; 2] = [429, -32_429];
/// How they word it where the code is another.
const RATE_LIMITED: &str = "too many requests";
/// How nodes word a transaction that is known.
const ALREADY_PROCESSED: &str = "already been processed";
/// How often a call that waits is made again.
const RETRIES_MAX: u32 = 5;
/// Longest text of a node that is kept, in characters: it ends up in events and logs.
const TEXT_CHARS_MAX: usize = 400;

/// Why a call gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// No answer, or none that can be read.
    Unanswered(Transient),
    /// The node has the transaction already that it was sent.
    Known(String),
    /// The node itself refused the request.
    Rejected(String),
}

impl From<Fault> for Transient {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unanswered(fault) => fault,
            Fault::Known(text) | Fault::Rejected(text) => Self::contradiction(text),
        }
    }
}

impl From<Transient> for Fault {
    fn from(fault: Transient) -> Self {
        Self::Unanswered(fault)
    }
}

/// An answer that several read.
pub(super) type Answer = Arc<Value>;

/// An error as nodes write it.
#[derive(Deserialize)]
struct RpcError {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Value,
}

/// The endpoint.
#[derive(Debug)]
pub(super) struct Rpc {
    transport: Box<dyn Transport>,
    timeout: Duration,
    /// By method and parameters.
    reads: SingleFlight<(&'static str, String), Result<Answer, Fault>>,
}

impl Rpc {
    /// An endpoint at `url`; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(url: &Url, timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self::over(Box::new(Http::new(url.clone(), timeout)?), timeout))
    }

    /// An endpoint behind `transport`, which bounds the time of each call; `timeout` is that of a call with all its repetitions.
    pub fn over(transport: Box<dyn Transport>, timeout: Duration) -> Self {
        Self { transport, timeout, reads: SingleFlight::default() }
    }

    /// The origin of its address, which is all that may be shown of it.
    pub fn endpoint(&self) -> &str {
        self.transport.origin()
    }

    /// Reads what `method` answers to `params`, an array; once for all who want to read it at the same time.
    pub async fn read(&self, method: &'static str, params: &Value) -> Result<Answer, Fault> {
        let key = (method, params.to_string());
        self.reads.read(&key, || async { self.answer(method, params).await.map(Arc::new) }).await
    }

    /// Calls `method`; `params` are an array. A node that is asked too often is waited for and asked again, within the time of a
    /// call.
    pub async fn call<R: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<R, Fault> {
        let asked = async {
            for _ in 0..RETRIES_MAX {
                match self.answer(method, &params).await {
                    Err(Fault::Unanswered(Transient::RateLimited(_))) => self.transport.pause_over().await,
                    answer => return answer,
                }
            }
            self.answer(method, &params).await
        };
        let answer = tokio::time::timeout(self.timeout, asked).await.unwrap_or_else(|_| {
            let what = format!("{method} at {}: no answer in {:?}", self.endpoint(), self.timeout);
            Err(Transient::unreachable(what).into())
        });
        parsed(method, self.endpoint(), &answer?)
    }

    /// What `method` answers to `params`, an array.
    pub async fn answer(&self, method: &'static str, params: &Value) -> Result<Value, Fault> {
        let place = format!("{method} at {}", self.endpoint());
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let answer = self.transport.post(body.into_bytes()).await.map_err(|fault| fault.transient(&place))?;
        if !answer.is_success() {
            let text = format!("{place}: HTTP status {}", answer.status);
            return Err(Transient::of_http_status(answer.status, text).into());
        }
        let unreadable = |what: &str| Transient::unreachable(format!("{place}: unreadable answer: {what}"));
        let mut answer: Value =
            serde_json::from_slice(&answer.body).map_err(|error| unreadable(&shortened(&error.to_string())))?;
        let members = answer.as_object_mut().ok_or_else(|| unreadable("not an object"))?;
        match (members.remove("error").filter(|error| !error.is_null()), members.remove("result")) {
            (Some(error), _) => {
                let error = RpcError::deserialize(error).map_err(|_| unreadable("an error that is none"))?;
                Err(self.sort(&place, &error))
            }
            (None, Some(result)) => Ok(result),
            (None, None) => Err(unreadable("neither result nor error").into()),
        }
    }

    fn sort(&self, place: &str, error: &RpcError) -> Fault {
        let RpcError { code, message, data } = error;
        let text = format!("{place}: {} (code {code})", shortened(message));
        if RATE_LIMITED_CODES.contains(code) || message.to_ascii_lowercase().contains(RATE_LIMITED) {
            self.transport.pause(None);
            Fault::Unanswered(Transient::rate_limited(text))
        } else if data["err"] == "AlreadyProcessed" || message.contains(ALREADY_PROCESSED) {
            // Not every node puts the transaction's error into the answer's data.
            Fault::Known(text)
        } else {
            Fault::Rejected(text)
        }
    }
}

/// What was answered to `method` at `place`.
pub(super) fn parsed<R: DeserializeOwned>(method: &str, place: &str, answer: &Value) -> Result<R, Fault> {
    R::deserialize(answer).map_err(|error| {
        let what = format!("{method} at {place}: unreadable answer: {}", shortened(&error.to_string()));
        Fault::Unanswered(Transient::unreachable(what))
    })
}

fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
