//! HTTP with signing services: bounded in time and length, and what an answer's status means.

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, redirect::Policy};
use url::Url;

use crate::SignError;

/// Longest answer that is read. A list of public keys is the longest one: some thousands of them.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A signing service, and the key there that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    client: Client,
    /// Which key it is and where, for errors. Nothing secret: of an address the origin alone.
    pub key: String,
}

/// An answer.
pub(crate) struct Answer {
    /// Its HTTP status.
    pub status: u16,
    pub body: Vec<u8>,
}

impl Service {
    /// The client for the key that errors call `key`. Redirects are not followed, and no proxy of the environment is used: what is
    /// signed is nobody else's to see.
    ///
    /// # Errors
    /// [`SignError::Unusable`] where the machine's TLS cannot be set up.
    pub fn new(key: String, call_max: Duration) -> Result<Self, SignError> {
        let client = Client::builder().timeout(call_max).connect_timeout(call_max).redirect(Policy::none()).no_proxy();
        match client.build() {
            Ok(client) => Ok(Self { client, key }),
            Err(error) => Err(SignError::Unusable { key, reason: error.to_string() }),
        }
    }

    pub fn get(&self, url: Url) -> RequestBuilder {
        self.client.get(url)
    }

    pub fn post(&self, url: Url) -> RequestBuilder {
        self.client.post(url)
    }

    /// Sends `request`.
    ///
    /// # Errors
    /// [`SignError::Unreachable`], [`SignError::Unreadable`] for one that is too long.
    pub async fn ask(&self, request: RequestBuilder) -> Result<Answer, SignError> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        Ok(Answer { status, body: self.read(response).await? })
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, SignError> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(self.unreadable("its answer is too long"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// The error that a status other than success is; `said` is what the service says of it.
    pub fn of_status(&self, status: u16, said: &str) -> SignError {
        let key = self.key.clone();
        let reason = if said.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {said}") };
        match status {
            429 => SignError::RateLimited { key, reason },
            // Request Timeout, Conflict, Too Early: of the moment, not of the request (RFC 9110, RFC 8470).
            408 | 409 | 425 => SignError::Unreachable { key, reason },
            300..=499 => SignError::Unusable { key, reason },
            _ => SignError::Unreachable { key, reason },
        }
    }

    /// What the service does not let this key be used for, or has no key for.
    pub fn unusable(&self, reason: impl Into<String>) -> SignError {
        SignError::Unusable { key: self.key.clone(), reason: reason.into() }
    }

    /// An answer that is none.
    pub fn unreadable(&self, reason: impl Into<String>) -> SignError {
        SignError::Unreadable { key: self.key.clone(), reason: reason.into() }
    }

    fn unreachable(&self, error: &reqwest::Error) -> SignError {
        let reason = if error.is_timeout() {
            "no answer in time"
        } else if error.is_connect() {
            "no connection"
        } else {
            "the connection broke"
        };
        SignError::Unreachable { key: self.key.clone(), reason: reason.to_owned() }
    }
}
