//! Client of fulfillment verifiers: asks for an attestation over HTTP.

use std::time::Duration;

use reqwest::{Url, header::HeaderMap};

use events::time::unix_seconds;
use protocol::{
    AttestationRequest, AttestationResponse, DELIVERY_ATTESTATION_PATH, MESSAGE_BYTES_MAX, message_signature::Signer,
};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The verifier gave no usable answer; ask again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be reached, or broke off.
    #[error("the verifier cannot be reached: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// Its endpoint is not an origin.
    #[error("the verifier's endpoint is not an http or https origin")]
    NotAnOrigin,
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
    signer: Signer,
}

impl Client {
    /// A client that follows no redirects and reads bounded answers. `signer` signs the requests: a verifier reserves
    /// capacity for callers that it knows.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the system has no usable TLS set-up.
    pub fn new(signer: Signer) -> Result<Self, Error> {
        let http = reqwest::Client::builder().timeout(CALL_TIMEOUT).redirect(reqwest::redirect::Policy::none()).build();
        Ok(Self { http: http?, signer })
    }

    /// Asks the verifier at `endpoint` to attest a delivery.
    ///
    /// # Errors
    /// See [`Error`]; each of them is transient.
    pub async fn attest_delivery(
        &self,
        endpoint: &str,
        request: &AttestationRequest,
    ) -> Result<AttestationResponse, Error> {
        // The signature covers the URL's normal form, because the verifier knows its own origin in that form.
        let url = Url::parse(&format!("{endpoint}{DELIVERY_ATTESTATION_PATH}")).map_err(|_| Error::NotAnOrigin)?;
        let body = protocol::write(request);
        let signed = self.signer.sign("POST", url.as_str(), &body, unix_seconds(chrono::Utc::now()));
        let call = self.http.post(url).header("content-type", "application/json").headers(HeaderMap::from_iter(signed));
        let call = match trace::current() {
            Some(parent) => call.header(trace::TRACEPARENT, parent),
            None => call,
        };
        let mut response = call.body(body).send().await?;
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
