//! Transport: how calls reach a node. Over HTTP, or as whoever connects wants it.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{
    Client, Response, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use serde_json::Value;
use url::Url;

use chains::config::ApiKey;

/// The header that providers read an API key from.
const API_KEY_HEADER: HeaderName = HeaderName::from_static("tron-pro-api-key");
/// Largest answer that is read. All results of a full block fit several times over.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What a node answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The header `Retry-After`, where there is one.
    pub retry_after: Option<String>,
    /// The body; with any other status than 200 nobody reads it.
    pub body: Vec<u8>,
}

/// Why there is no answer. It names neither path nor query of an address, which may hold a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Silence(pub String);

/// The way to one node.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Posts `body` as JSON to `path`, for example `wallet/getblock`. It answers or gives up within a time of its own.
    ///
    /// # Errors
    /// [`Silence`]: whether the call arrived is unknown.
    async fn post(&self, path: &str, body: &Value) -> Result<Reply, Silence>;
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    /// The API key cannot be sent.
    #[error("api_key has characters that no HTTP header can have")]
    ApiKey,
    /// The HTTP client cannot be built.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
}

/// Calls over HTTP, with limits of time and size.
pub(super) struct Http {
    client: Client,
    base: String,
}

impl Http {
    /// Calls under `url`; nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(url: &Url, timeout: Duration, api_key: Option<&ApiKey>) -> Result<Self, ClientError> {
        let mut headers = HeaderMap::new();
        if let Some(key) = api_key {
            let mut value = HeaderValue::from_str(key.expose()).map_err(|_| ClientError::ApiKey)?;
            value.set_sensitive(true);
            headers.insert(API_KEY_HEADER, value);
        }
        // A redirect would take the key elsewhere.
        let client = Client::builder()
            .timeout(timeout)
            .connect_timeout(timeout)
            .redirect(Policy::none())
            .default_headers(headers)
            .build()?;
        Ok(Self { client, base: url.as_str().trim_end_matches('/').to_owned() })
    }
}

#[async_trait]
impl Transport for Http {
    async fn post(&self, path: &str, body: &Value) -> Result<Reply, Silence> {
        // The errors' own texts may hold the whole URL, and so a key.
        let response = self.client.post(format!("{}/{path}", self.base)).json(body).send().await;
        let response = response.map_err(|error| Silence(kind(&error).to_owned()))?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = if status == StatusCode::OK { read(response).await.map_err(Silence)? } else { Vec::new() };
        Ok(Reply { status: status.as_u16(), retry_after, body })
    }
}

async fn read(mut response: Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    loop {
        let chunk = match response.chunk().await {
            Ok(chunk) => chunk,
            Err(error) => return Err(kind(&error).to_owned()),
        };
        let Some(chunk) = chunk else { return Ok(bytes) };
        if bytes.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(format!("more than {BODY_BYTES_MAX} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
}

fn kind(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "no answer"
    }
}
