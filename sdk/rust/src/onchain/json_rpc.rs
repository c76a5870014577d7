//! JSON-RPC: one call to a node, in bounded time and memory.

use std::time::Duration;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::Url;

use super::{fault, unusable};
use crate::error::Error;

const CALL_MAX: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A node.
#[derive(Debug, Clone)]
pub(super) struct JsonRpc {
    http: reqwest::Client,
    url: Url,
}

#[derive(Deserialize)]
struct Answer<T> {
    result: Option<T>,
    error: Option<Refusal>,
}

/// The node's own words for what it does not do.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Refusal {
    pub message: String,
    #[serde(default)]
    pub data: Option<Value>,
}

/// What a call came to.
pub(super) enum Answered<T> {
    Result(T),
    Refused(Refusal),
}

impl JsonRpc {
    pub(super) fn new(url: &str) -> Result<Self, Error> {
        // The address may hold a provider's key, and so is not repeated.
        let url = url.parse().map_err(|error| unusable(format!("the node's address is not a URL: {error}")))?;
        let http = reqwest::Client::builder().timeout(CALL_MAX).build().map_err(unusable)?;
        Ok(Self { http, url })
    }

    /// What the node answers, a refusal in its own words told apart from silence.
    pub(super) async fn ask<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<Answered<T>, Error> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let lost = |what: &dyn std::fmt::Display| fault(format!("{method}: {what}"));
        // The address may hold a provider's key.
        let sent = self.http.post(self.url.clone()).json(&body).send().await;
        let mut response = sent.map_err(|error| lost(&error.without_url()))?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| lost(&error.without_url()))? {
            if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(lost(&"an answer that is too large"));
            }
            bytes.extend_from_slice(&chunk);
        }
        let answer: Answer<T> = serde_json::from_slice(&bytes).map_err(|error| lost(&error))?;
        match (answer.result, answer.error) {
            (_, Some(refusal)) => Ok(Answered::Refused(refusal)),
            (Some(result), None) => Ok(Answered::Result(result)),
            // Where nothing is an answer, it is one of `T`.
            (None, None) => serde_json::from_value(Value::Null).map(Answered::Result).map_err(|_| lost(&"no result")),
        }
    }

    /// The same where a refusal says as little as silence.
    pub(super) async fn call<T: DeserializeOwned>(&self, method: &str, params: Value) -> Result<T, Error> {
        match self.ask(method, params).await? {
            Answered::Result(result) => Ok(result),
            Answered::Refused(refusal) => Err(fault(format!("{method}: {}", refusal.message))),
        }
    }
}
