//! The engine's port to fulfillment verifiers, over HTTP.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::{Client, StatusCode, header::HeaderMap};
use tracing::{Instrument, Span, field::Empty, info_span, warn};

use events::{event::VerifierRef, quote::SignedQuote, time::unix_seconds};
use net::{
    origin::origin,
    ssrf_guard::{self, Purpose, guarded_client},
};
use protocol::{
    AttestationRequest, AttestationResponse, AttestationStatus, DELIVERY_ATTESTATION_PATH,
    NON_DELIVERY_ATTESTATION_PATH, Version, message_signature::Signer,
};
use sagas::ports::{Chains, Statement, Transient, VerificationCase, Verifier};

/// Largest answer that is read, in bytes: a signature and a reason are a fraction of it.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// How much of what a verifier says is repeated in logs and errors, in characters.
const QUOTED_CHARS_MAX: usize = 200;

/// How verifiers are reached.
#[derive(Debug, Clone)]
pub struct Options {
    /// Origins that are called whatever their scheme and address: the default verifier's and configured ones.
    pub trusted_origins: Vec<String>,
    /// How long one question may take, from the look-up of the name to the last byte.
    pub wait_max: Duration,
    /// Signs what is asked, so that a verifier that knows the gateway keeps permits for it.
    pub signer: Option<Signer>,
}

/// Why [`Options`] cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A trusted origin is not an origin.
    #[error("`{0}` is not an origin, `http(s)://host[:port]` without a path")]
    NotAnOrigin(String),
    /// No HTTP client can be made, for example because the system has no root certificates.
    #[error("no HTTP client can be made: {0}")]
    Client(reqwest::Error),
}

/// Asks fulfillment verifiers over HTTP, and returns only signatures that the escrow would take.
///
/// Endpoints of payments come from strangers: beside the trusted origins only https to public addresses is called, and
/// the addresses that were checked are the ones that are connected to.
pub struct HttpVerifier {
    chains: Arc<dyn Chains>,
    trusted_origins: HashSet<String>,
    trusted: Client,
    wait_max: Duration,
    signer: Option<Signer>,
}

impl fmt::Debug for HttpVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpVerifier").field("trusted_origins", &self.trusted_origins).finish_non_exhaustive()
    }
}

impl HttpVerifier {
    /// A client whose answers are checked against `chains`.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn new(chains: Arc<dyn Chains>, options: Options) -> Result<Self, OptionsError> {
        let Options { trusted_origins, wait_max, signer } = options;
        let normalised = trusted_origins.into_iter().map(|text| origin(&text).ok_or(OptionsError::NotAnOrigin(text)));
        let trusted_origins = normalised.collect::<Result<_, _>>()?;
        let trusted = guarded_client().build().map_err(OptionsError::Client)?;
        Ok(Self { chains, trusted_origins, trusted, wait_max, signer })
    }

    async fn attest(
        &self,
        verifier: &VerifierRef,
        case: &VerificationCase,
        path: &str,
        statement: &Statement,
    ) -> Result<Option<String>, Transient> {
        let payment_id = case.payment_id.as_str();
        let span = info_span!(
            target: trace::TARGET, "attest",
            otel.kind = "client", payment_id, path, verdict = Empty, error = Empty,
        );
        let asking = tokio::time::timeout(self.wait_max, self.ask(verifier, case, path));
        let asked = asking.instrument(span.clone()).await;
        note(&span, &asked);
        let answer = asked.map_err(|_| unreachable(verifier, "did not answer in time"))??;
        let reason = answer.reason.as_deref().map(quoted).unwrap_or_default();
        let signature = match (answer.status, answer.signature) {
            (AttestationStatus::Attested, Some(signature)) => signature,
            (AttestationStatus::Attested, None) => return Err(contradiction(verifier, "attested without a signature")),
            (AttestationStatus::Pending, _) => return Ok(None),
            (AttestationStatus::Refused, _) => {
                warn!(payment_id = %case.payment_id, endpoint = verifier.endpoint, reason, "verifier refuses");
                return Ok(None);
            }
        };
        if self.chains.attestation_holds(statement, &case.escrow, &signature).await? {
            Ok(Some(signature))
        } else {
            let releaser = &case.escrow.releaser;
            Err(contradiction(verifier, &format!("gave a signature that is not the statement of releaser {releaser}")))
        }
    }

    async fn ask(
        &self,
        verifier: &VerifierRef,
        case: &VerificationCase,
        path: &str,
    ) -> Result<AttestationResponse, Transient> {
        let origin = origin(&verifier.endpoint).ok_or_else(|| unreachable(verifier, "is not an origin"))?;
        let client = if self.trusted_origins.contains(&origin) {
            self.trusted.clone()
        } else {
            ssrf_guard::client(Purpose::Verifiers, &origin)
                .await
                .map_err(|error| unreachable(verifier, &error.to_string()))?
        };
        let body = protocol::write(&AttestationRequest {
            version: Version,
            payment_id: case.payment_id.clone(),
            terms: case.terms.clone(),
            escrow: (&case.escrow).into(),
            quote: case.quote_document.clone(),
            payloads: case.payloads.clone(),
        });
        let uri = format!("{origin}{path}");
        let mut request = client.post(&uri).header("content-type", "application/json");
        if let Some(signer) = &self.signer {
            let signed = signer.sign("POST", &uri, &body, unix_seconds(chrono::Utc::now()));
            request = request.headers(HeaderMap::from_iter(signed));
        }
        if let Some(parent) = trace::current() {
            request = request.header(trace::TRACEPARENT, parent);
        }
        let request = request.body(body);
        let mut response = request.send().await.map_err(|error| unreachable(verifier, &chain_of(&error)))?;
        let status = response.status();
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| unreachable(verifier, &chain_of(&error)))? {
            if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(contradiction(verifier, &format!("answered more than {ANSWER_BYTES_MAX} bytes")));
            }
            answer.extend_from_slice(&chunk);
        }
        if status != StatusCode::OK {
            let text = quoted(&String::from_utf8_lossy(&answer));
            let what = format!("answered {status}: {text}");
            return Err(match status {
                StatusCode::TOO_MANY_REQUESTS => Transient::rate_limited(about(verifier, &what)),
                _ => unreachable(verifier, &what),
            });
        }
        protocol::read(&answer).map_err(|error| contradiction(verifier, &quoted(&error.to_string())))
    }
}

#[async_trait]
impl Verifier for HttpVerifier {
    async fn attest_delivery(
        &self,
        verifier: &VerifierRef,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        let quote = awarded_quote(case)?;
        let statement = Statement::Delivery {
            payment_id: case.payment_id.clone(),
            quote_hash: quote.hash(),
            payout_account: quote.quote().payout_account.clone(),
        };
        self.attest(verifier, case, DELIVERY_ATTESTATION_PATH, &statement).await
    }

    async fn attest_non_delivery(
        &self,
        verifier: &VerifierRef,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        let quote_hash = awarded_quote(case)?.hash();
        let statement = Statement::NonDelivery { payment_id: case.payment_id.clone(), quote_hash };
        self.attest(verifier, case, NON_DELIVERY_ATTESTATION_PATH, &statement).await
    }
}

fn note<E>(span: &Span, asked: &Result<Result<AttestationResponse, Transient>, E>) {
    match asked {
        Ok(Ok(answer)) => span.record("verdict", verdict(answer.status)),
        Ok(Err(fault)) => span.record("error", fault.kind()),
        Err(_) => span.record("error", "timeout"),
    };
}

/// What an answer is called in spans.
fn verdict(status: AttestationStatus) -> &'static str {
    match status {
        AttestationStatus::Attested => "attested",
        AttestationStatus::Pending => "pending",
        AttestationStatus::Refused => "refused",
    }
}

fn awarded_quote(case: &VerificationCase) -> Result<SignedQuote, Transient> {
    SignedQuote::parse_stored(&case.quote_document).map_err(|error| {
        Transient::misconfigured(format!("awarded quote of {} cannot be read: {error}", case.payment_id))
    })
}

/// A verifier that gives no answer, or not yet. One that must not be called counts as that, too: its endpoint is of the
/// payer's choice, so no operator has to hear of it.
fn unreachable(verifier: &VerifierRef, what: &str) -> Transient {
    Transient::unreachable(about(verifier, what))
}

/// A verifier whose answer cannot be one.
fn contradiction(verifier: &VerifierRef, what: &str) -> Transient {
    Transient::contradiction(about(verifier, what))
}

fn about(verifier: &VerifierRef, what: &str) -> String {
    format!("verifier {} {what}", quoted(&verifier.endpoint))
}

/// The error with its causes, which reqwest's own text leaves out.
fn chain_of(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    format!("failed: {}", quoted(&text))
}

/// What a stranger said, short and on one line.
fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_is_short_and_on_one_line() {
        assert_eq!(quoted("a\nb\u{1b}[0m"), "a b [0m");
        assert_eq!(quoted(&"é".repeat(1_000)).chars().count(), QUOTED_CHARS_MAX);
    }
}
