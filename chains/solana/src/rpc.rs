//! JSON-RPC endpoint: calls with a time limit, faults sorted where they arise.

use std::{sync::Arc, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::Value;
use solana_client::{
    client_error::{ClientError, ClientErrorKind},
    nonblocking::rpc_client::RpcClient,
    rpc_request::{RpcError, RpcRequest, RpcResponseErrorData},
};
use url::Url;

use chains::single_flight::SingleFlight;
use sagas::ports::Transient;

/// What providers answer, instead of the HTTP status, to whoever asks too often.
const RATE_LIMITED_CODES: [i64; 2] = [429, -32_429];
/// How they word it where the code is another.
const RATE_LIMITED: &str = "too many requests";
/// How the client library words a transaction that is known.
const ALREADY_PROCESSED: &str = "already been processed";

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

/// An answer that several read.
type Answer = Result<Arc<Value>, Fault>;

/// The endpoint.
pub(super) struct Rpc {
    client: RpcClient,
    endpoint: String,
    timeout: Duration,
    /// By method and parameters.
    reads: SingleFlight<(&'static str, String), Answer>,
}

impl Rpc {
    /// An endpoint at `url`; nothing is sent yet.
    pub fn new(url: &Url, timeout: Duration) -> Self {
        // Only the origin goes into messages: paths and queries of providers hold keys.
        let endpoint = url.origin().ascii_serialization();
        Self {
            client: RpcClient::new_with_timeout(url.to_string(), timeout),
            endpoint,
            timeout,
            reads: SingleFlight::default(),
        }
    }

    /// Reads what `method` answers to `params`, an array; once for all who want to read it at the same time.
    pub async fn read<R: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<R, Fault> {
        let key = (method, params.to_string());
        let answer = self.reads.read(&key, || async move { self.call(method, params).await.map(Arc::new) }).await?;
        R::deserialize(&*answer).map_err(|error| {
            let what = format!("{method} at {}: unreadable answer: {error}", self.endpoint);
            Fault::Unanswered(Transient::unreachable(what))
        })
    }

    /// Calls `method`; `params` are an array.
    pub async fn call<R: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<R, Fault> {
        let place = || format!("{method} at {}", self.endpoint);
        // The client waits and asks again after an answer that it asks too often; this bounds all of it.
        let answer = tokio::time::timeout(self.timeout, self.client.send(RpcRequest::Custom { method }, params)).await;
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(sort(&place(), &error)),
            Err(_) => {
                Err(Fault::Unanswered(Transient::unreachable(format!("{}: no answer in {:?}", place(), self.timeout))))
            }
        }
    }
}

/// Not every node puts the transaction's error into the answer's data.
fn is_known(data: &RpcResponseErrorData) -> bool {
    let RpcResponseErrorData::SendTransactionPreflightFailure(simulated) = data else { return false };
    let error = simulated.err.as_ref().and_then(|error| serde_json::to_value(error).ok());
    error.is_some_and(|error| error == "AlreadyProcessed")
}

fn sort(place: &str, error: &ClientError) -> Fault {
    match error.kind.as_ref() {
        ClientErrorKind::RpcError(RpcError::RpcResponseError { code, message, data }) => {
            let text = format!("{place}: {message} (code {code})");
            let is_rate_limited =
                RATE_LIMITED_CODES.contains(code) || message.to_ascii_lowercase().contains(RATE_LIMITED);
            if is_rate_limited {
                Fault::Unanswered(Transient::rate_limited(text))
            } else if is_known(data) || message.contains(ALREADY_PROCESSED) {
                Fault::Known(text)
            } else {
                Fault::Rejected(text)
            }
        }
        // The error's own text may hold the whole URL, and so a key.
        ClientErrorKind::Reqwest(error) => match error.status() {
            Some(status) => {
                let text = format!("{place}: HTTP status {}", status.as_u16());
                Fault::Unanswered(Transient::of_http_status(status.as_u16(), text))
            }
            None => Fault::Unanswered(Transient::unreachable(format!("{place}: no answer"))),
        },
        ClientErrorKind::SerdeJson(error) => {
            Fault::Unanswered(Transient::unreachable(format!("{place}: unreadable answer: {error}")))
        }
        _ => Fault::Unanswered(Transient::unreachable(format!("{place}: no usable answer"))),
    }
}
