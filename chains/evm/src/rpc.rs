//! JSON-RPC endpoint: calls with a time limit, faults sorted where they arise.

use std::{borrow::Cow, fmt::Debug, time::Duration};

use alloy::{
    primitives::Bytes,
    rpc::{client::RpcClient, json_rpc::ErrorPayload},
    transports::{RpcError, TransportError, http::reqwest},
};
use futures::future::join_all;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use escrow_abi::revert::Revert;
use sagas::ports::Transient;

/// What came of a call that gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No answer, or none that can be read.
    Unanswered(Transient),
    /// The node answered that a contract refused.
    Reverted(Revert),
    /// The node itself refused the request.
    Rejected(String),
}

impl From<Fault> for Transient {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unanswered(fault) => fault,
            Fault::Reverted(revert) => Self::contradiction(format!("unexpected revert: {}", revert.reason)),
            Fault::Rejected(text) => Self::contradiction(text),
        }
    }
}

/// The endpoint.
#[derive(Debug)]
pub(crate) struct Rpc {
    client: RpcClient,
    endpoint: String,
}

impl Rpc {
    /// An endpoint at `url`; nothing is sent yet.
    pub fn new(url: Url, timeout: Duration) -> Result<Self, reqwest::Error> {
        // Only the origin goes into messages: paths and queries of providers hold keys.
        let endpoint = url.origin().ascii_serialization();
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .connect_timeout(timeout)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { client: RpcClient::new_http_with_client(http, url), endpoint })
    }

    /// What `client` is connected to, however it is; `endpoint` names it in messages. Its transport limits the time of a
    /// call.
    pub fn over(client: RpcClient, endpoint: String) -> Self {
        Self { client, endpoint }
    }

    /// Calls `method`.
    pub async fn call<P, R>(&self, method: &'static str, params: P) -> Result<R, Fault>
    where
        P: Serialize + Clone + Debug + Send + Sync + Unpin,
        R: DeserializeOwned + Debug + Send + Sync + Unpin + 'static,
    {
        self.client.request(Cow::Borrowed(method), params).await.map_err(|error| self.sort(method, error))
    }

    /// Calls `method` once for each of `params`, in one request; in one each where the endpoint takes no batches. The answers
    /// are in the order of the questions.
    pub async fn call_all<P, R>(&self, method: &'static str, params: &[P]) -> Vec<Result<R, Fault>>
    where
        P: Serialize + Clone + Debug + Send + Sync + Unpin,
        R: DeserializeOwned + Debug + Send + Sync + Unpin + 'static,
    {
        if params.len() > 1 {
            let mut batch = self.client.new_batch();
            let answers: Result<Vec<_>, _> =
                params.iter().map(|params| batch.add_call::<P, R>(Cow::Borrowed(method), params)).collect();
            if let Ok(answers) = answers
                && batch.send().await.is_ok()
            {
                return join_all(
                    answers.into_iter().map(async |answer| answer.await.map_err(|e| self.sort(method, e))),
                )
                .await;
            }
        }
        join_all(params.iter().map(|params| self.call(method, params.clone()))).await
    }

    /// Whether the endpoint takes several calls in one request.
    pub async fn takes_batches(&self) -> bool {
        let mut batch = self.client.new_batch();
        let calls = [batch.add_call::<_, Value>("eth_chainId", &()), batch.add_call("eth_chainId", &())];
        let [Ok(one), Ok(other)] = calls else { return false };
        batch.send().await.is_ok() && one.await.is_ok() && other.await.is_ok()
    }

    fn sort(&self, method: &str, error: TransportError) -> Fault {
        let place = format!("{method} at {}", self.endpoint);
        match error {
            RpcError::ErrorResp(answer) => {
                let data = answer.data.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok());
                if let Some(revert) = revert(answer.code, &answer.message, data) {
                    return Fault::Reverted(revert);
                }
                let text = format!("{place}: {} (code {})", answer.message, answer.code);
                match is_rate_limit(&answer) {
                    true => Fault::Unanswered(Transient::rate_limited(text)),
                    false => Fault::Rejected(text),
                }
            }
            // The error's own text may hold the whole URL, and so a key.
            RpcError::Transport(kind) => Fault::Unanswered(match kind.as_http_error() {
                Some(error) => {
                    Transient::of_http_status(error.status, format!("{place}: HTTP status {}", error.status))
                }
                None => Transient::unreachable(format!("{place}: no answer")),
            }),
            RpcError::DeserError { err, .. } => {
                Fault::Unanswered(Transient::unreachable(format!("{place}: unreadable answer: {err}")))
            }
            RpcError::NullResp => Fault::Unanswered(Transient::unreachable(format!("{place}: null"))),
            other => Fault::Unanswered(Transient::unreachable(format!("{place}: {}", kind(&other)))),
        }
    }
}

/// Whether a node refuses because too much was asked of it for now. The code −32005 alone does not say so: it stands for every
/// limit, also for that of one answer's size (EIP-1474). A header that is not found is a node's that lags.
fn is_rate_limit(answer: &ErrorPayload) -> bool {
    const RATES: [&str; 4] = ["rate limit", "rate exceeded", "too many requests", "request count exceeded"];
    let words = answer.message.to_ascii_lowercase();
    let is_rate = RATES.iter().any(|rate| words.contains(rate));
    match answer.code {
        -32005 => is_rate,
        _ => is_rate || (words != "header not found" && answer.is_retry_err()),
    }
}

fn kind(error: &TransportError) -> &'static str {
    match error {
        RpcError::SerError(_) => "request cannot be written",
        RpcError::UnsupportedFeature(_) => "not supported",
        RpcError::LocalUsageError(_) => "misused",
        _ => "failed",
    }
}

/// What nodes say of code that ran into the ground instead of reverting: out of gas, or at something that is not an instruction.
/// It is the code's own doing, as a revert is, and no fault of the node. In lower case.
const HALTS: [&str; 14] = [
    "out of gas",
    "outofgas",
    "gas required exceeds",
    "invalid opcode",
    "opcodenotfound",
    "invalidfeopcode",
    "invalid jump",
    "invalidjump",
    "stack underflow",
    "stackunderflow",
    "stack limit reached",
    "stackoverflow",
    "write protection",
    "vm execution error",
];

/// Nodes say "reverted" in different ways: geth and anvil by code 3, others in the message; the data is a hex string,
/// possibly behind the word `Reverted` or inside an object. Code that halted in another way refused as well.
fn revert(code: i64, message: &str, data: Option<Value>) -> Option<Revert> {
    let text = data.as_ref().and_then(Value::as_str).unwrap_or_default();
    let words = message.to_ascii_lowercase();
    let said =
        words.contains("revert") || text.starts_with("Reverted") || HALTS.iter().any(|halt| words.contains(halt));
    (code == 3 || said).then(|| Revert::new(data.as_ref().and_then(find_hex).unwrap_or_default(), message))
}

fn find_hex(value: &Value) -> Option<Bytes> {
    match value {
        Value::String(text) => {
            let digits = text.strip_prefix("Reverted").unwrap_or(text).trim().strip_prefix("0x")?;
            hex::decode(digits).ok().map(Bytes::from)
        }
        Value::Object(members) => members.values().find_map(find_hex),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_from_other_refusals() {
        let answer = |code, message: &'static str| ErrorPayload { code, message: message.into(), data: None };
        for (code, message) in [
            (429, "over capacity"),
            (-32005, "project ID request rate exceeded"),
            (-32005, "daily request count exceeded, request rate limited"),
            (-32007, "100/second request limit reached - reduce calls per second"),
            (-32000, "too many requests"),
            // Not every node writes it in lower case.
            (-32000, "Rate limit exceeded"),
            (-32000, "Too Many Requests"),
            (-32005, "Project ID request rate exceeded"),
        ] {
            assert!(is_rate_limit(&answer(code, message)), "{message}");
        }
        for (code, message) in [
            (-32005, "query returned more than 10000 results"),
            (-32005, "limit exceeded"),
            (-32000, "header not found"),
            (-32000, "nonce too low"),
        ] {
            assert!(!is_rate_limit(&answer(code, message)), "{message}");
        }
    }

    #[test]
    fn reverts_are_told_from_other_refusals() {
        let sorted = |code, message, data: &str| revert(code, message, serde_json::from_str(data).ok());
        for (code, message, data, returned) in [
            (3, "execution reverted: custom error", r#""0xdeadbeef""#, "deadbeef"),
            (-32000, "execution reverted", "", ""),
            (-32015, "VM execution error.", r#""Reverted 0xdeadbeef""#, "deadbeef"),
            (-32603, "VM reverted", r#"{"data":"0xdeadbeef"}"#, "deadbeef"),
            (-32000, "out of gas", "", ""),
            (-32000, "gas required exceeds allowance (1000000)", "", ""),
            (-32603, "EVM error OutOfGas", "", ""),
            (-32000, "invalid opcode: INVALID", "", ""),
            (-32015, "VM execution error.", r#""OutOfGas""#, ""),
        ] {
            assert_eq!(hex::encode(sorted(code, message, data).unwrap().data), returned, "{message}");
        }
        for (code, message, data) in [
            (-32000, "header not found", ""),
            (-32000, "insufficient funds for gas * price + value", ""),
            (-32005, "limit exceeded", r#""0x00""#),
        ] {
            assert_eq!(sorted(code, message, data), None, "{message}");
        }
    }
}
