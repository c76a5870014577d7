//! Asking a verifier for an attestation, over HTTP.

use std::time::Duration;

use crate::protocol::{self, AttestationRequest, AttestationResponse, DELIVERY_ATTESTATION_PATH, MESSAGE_BYTES_MAX};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The verifier gave no answer that can be used; ask again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be reached, or broke off.
    #[error("the verifier cannot be reached: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// It answered with this HTTP status.
    #[error("the verifier answered with HTTP status {0}")]
    Status(u16),
    /// Its answer is not of the protocol.
    #[error("the verifier's answer is unusable: {0}")]
    Unusable(#[from] protocol::Error),
}

/// A client for all verifiers; cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
}

impl Client {
    /// A client that follows no redirects and reads bounded answers.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the system has no usable TLS set-up.
    pub fn new() -> Result<Self, Error> {
        let http = reqwest::Client::builder().timeout(CALL_TIMEOUT).redirect(reqwest::redirect::Policy::none()).build();
        Ok(Self { http: http? })
    }

    /// Asks the verifier at `endpoint` to attest a delivery.
    ///
    /// # Errors
    /// See [`Error`]; all of them pass.
    pub async fn attest_delivery(
        &self,
        endpoint: &str,
        request: &AttestationRequest,
    ) -> Result<AttestationResponse, Error> {
        let url = format!("{endpoint}{DELIVERY_ATTESTATION_PATH}");
        let call = self.http.post(url).header("content-type", "application/json").body(protocol::write(request));
        let mut response = call.send().await?;
        if !response.status().is_success() {
            return Err(Error::Status(response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            if body.len() + chunk.len() > MESSAGE_BYTES_MAX {
                return Err(protocol::Error::TooLarge.into());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(protocol::read(&body)?)
    }
}
