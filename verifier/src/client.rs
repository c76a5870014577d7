//! The engine's port to fulfillment verifiers, over HTTP.

use std::{
    collections::HashSet,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use axum::body::Bytes;
use reqwest::{Client, StatusCode, header::HeaderMap};
use serde::Deserialize;
use tracing::{Instrument, Span, field::Empty, info_span, warn};

use events::{PaymentId, VerifierMember, event::EscrowPlan, quote::SignedQuote, time::unix_seconds};
use net::{
    origin::origin,
    ssrf_guard::{self, Purpose, guarded_client},
};
use protocol::{
    AttestationRequest, AttestationResponse, AttestationStatus, DELIVERY_ATTESTATION_PATH,
    NON_DELIVERY_ATTESTATION_PATH, Version, message_signature::Signer,
};
use sagas::ports::{Chains, Statement, Transient, VerificationCase, Verifier};

use super::{
    BUSY,
    finishing::Finishing,
    observed::{Answer, VerifierRecords},
    under_way::{Place, UnderWay},
};

/// Largest answer that is read, in bytes: a signature and a reason are a fraction of it.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// How much of what a verifier says is repeated in logs and errors, in characters.
const QUOTED_CHARS_MAX: usize = 200;
/// Asks of one verifier that may be under way: more than a verifier takes of one caller unless it is told to.
const ASKS_PER_VERIFIER_MAX: usize = 256;

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
///
/// Of one verifier so many are asked at a time, and no more. Where a payment has a set of verifiers, those that are not waited for
/// any more, because enough others have signed, are heard to their end all the same when they are trusted, so that it is known who
/// is slow or silent.
pub struct HttpVerifier {
    asker: Arc<Asker>,
    under_way: UnderWay,
}

/// What every ask needs.
struct Asker {
    chains: Arc<dyn Chains>,
    trusted_origins: HashSet<String>,
    trusted: Client,
    wait_max: Duration,
    signer: Option<Signer>,
    records: VerifierRecords,
}

/// One question to one verifier.
struct Ask {
    verifier: VerifierMember,
    /// The normal form of the verifier's.
    origin: String,
    path: &'static str,
    payment_id: PaymentId,
    body: Bytes,
    /// What the verifier is to sign, for which escrow.
    statement: Statement,
    escrow: EscrowPlan,
    /// It signs as a member of a set.
    is_of_set: bool,
    _place: Place,
}

impl fmt::Debug for HttpVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpVerifier").field("trusted_origins", &self.asker.trusted_origins).finish_non_exhaustive()
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
        let trusted_origins = normalised.collect::<Result<HashSet<_>, _>>()?;
        let trusted = guarded_client().build().map_err(OptionsError::Client)?;
        let records = VerifierRecords::of(&trusted_origins);
        let asker = Asker { chains, trusted_origins, trusted, wait_max, signer, records };
        Ok(Self { asker: Arc::new(asker), under_way: UnderWay::new(ASKS_PER_VERIFIER_MAX) })
    }

    /// What is observed of the trusted verifiers.
    pub fn records(&self) -> VerifierRecords {
        self.asker.records.clone()
    }

    async fn attest(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
        path: &'static str,
        statement: Statement,
    ) -> Result<Option<String>, Transient> {
        let origin = origin(&verifier.endpoint).ok_or_else(|| unreachable(verifier, "is not an origin"))?;
        let Some(place) = self.under_way.enter(&origin) else {
            self.asker.records.skipped(&origin);
            let what = format!("has {ASKS_PER_VERIFIER_MAX} asks to answer already");
            return Err(Transient::rate_limited(about(verifier, &what)));
        };
        let body: Bytes = protocol::write(&AttestationRequest {
            version: Version,
            payment_id: case.payment_id.clone(),
            terms: case.terms.clone(),
            escrow: (&case.escrow).into(),
            quote: case.quote_document.clone(),
            verifier_set: case.verifier_set.clone(),
            payloads: case.payloads.clone(),
        })
        .into();
        let is_finished = case.verifier_set.is_some() && self.asker.trusted_origins.contains(&origin);
        let ask = Ask {
            verifier: verifier.clone(),
            origin,
            path,
            payment_id: case.payment_id.clone(),
            body,
            statement,
            escrow: case.escrow.clone(),
            is_of_set: case.verifier_set.is_some(),
            _place: place,
        };
        let answered = Arc::clone(&self.asker).answered(ask);
        if is_finished { Finishing::new(answered).await } else { answered.await }
    }
}

impl Asker {
    /// The verifier's signature, or `None` while it gives none; what became of the ask is on record.
    async fn answered(self: Arc<Self>, ask: Ask) -> Result<Option<String>, Transient> {
        let (payment_id, path) = (ask.payment_id.as_str(), ask.path);
        let span = info_span!(
            target: trace::TARGET, "attest",
            otel.kind = "client", payment_id, path, verdict = Empty, error = Empty,
        );
        let begun = Instant::now();
        let asked = tokio::time::timeout(self.wait_max, self.ask(&ask)).instrument(span.clone()).await;
        let took = begun.elapsed();
        note(&span, &asked);
        let asked = asked.unwrap_or_else(|_| Err(unreachable(&ask.verifier, "did not answer in time")));
        let (answer, outcome) = match asked {
            Ok(response) => {
                let follows = response.follows_reassignments;
                let (answer, outcome) = self.judged(&ask, response).await;
                self.records.said(&ask.origin, &ask.verifier.account, follows, matches!(outcome, Ok(Some(_))));
                (answer, outcome)
            }
            Err(fault) => (answer_of(&fault), Err(fault)),
        };
        let signed_with = matches!(outcome, Ok(Some(_))).then_some(&ask.verifier.account);
        self.records.asked(&ask.origin, signed_with, answer, took, chrono::Utc::now());
        outcome
    }

    /// What a response is worth.
    async fn judged(&self, ask: &Ask, response: AttestationResponse) -> (Answer, Result<Option<String>, Transient>) {
        let verifier = &ask.verifier;
        let signature = match (response.status, response.signature) {
            (AttestationStatus::Attested, Some(signature)) => signature,
            (AttestationStatus::Attested, None) => {
                return (Answer::Contradiction, Err(contradiction(verifier, "attested without a signature")));
            }
            (AttestationStatus::Pending, _) => return (Answer::Pending, Ok(None)),
            (AttestationStatus::Refused, _) => {
                let reason = response.reason.as_deref().map(quoted).unwrap_or_default();
                warn!(payment_id = %ask.payment_id, endpoint = verifier.endpoint, reason, "verifier refuses");
                return (Answer::Refused, Ok(None));
            }
        };
        let (chains, statement, escrow) = (&self.chains, &ask.statement, &ask.escrow);
        let holds = match ask.is_of_set {
            true => chains.signed_by(statement, escrow, &verifier.account, &signature).await,
            false => chains.attestation_holds(statement, escrow, &signature).await,
        };
        match holds {
            Ok(true) => (Answer::Attested, Ok(Some(signature))),
            Ok(false) => {
                let what = format!("gave a signature that is not the statement of {}", verifier.account);
                (Answer::Contradiction, Err(contradiction(verifier, &what)))
            }
            // That nobody can say whether it holds is not the verifier's doing.
            Err(fault) => (Answer::Attested, Err(fault)),
        }
    }

    async fn ask(&self, ask: &Ask) -> Result<AttestationResponse, Transient> {
        let Ask { verifier, origin, .. } = ask;
        let client = if self.trusted_origins.contains(origin) {
            self.trusted.clone()
        } else {
            ssrf_guard::client(Purpose::Verifiers, origin)
                .await
                .map_err(|error| unreachable(verifier, &error.to_string()))?
        };
        let uri = format!("{origin}{}", ask.path);
        let mut request = client.post(&uri).header("content-type", "application/json");
        if let Some(signer) = &self.signer {
            let signed = signer.sign("POST", &uri, &ask.body, unix_seconds(chrono::Utc::now()));
            request = request.headers(HeaderMap::from_iter(signed));
        }
        if let Some(parent) = trace::current() {
            request = request.header(trace::TRACEPARENT, parent);
        }
        let request = request.body(ask.body.clone());
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
                StatusCode::SERVICE_UNAVAILABLE if is_busy(&answer) => Transient::rate_limited(about(verifier, &what)),
                _ => unreachable(verifier, &what),
            });
        }
        protocol::read(&answer).map_err(|error| contradiction(verifier, &quoted(&error.to_string())))
    }
}

/// What a verifier says that gives no answer.
#[derive(Deserialize)]
struct Problem {
    code: String,
}

fn is_busy(answer: &[u8]) -> bool {
    serde_json::from_slice(answer).is_ok_and(|problem: Problem| problem.code == BUSY)
}

/// What became of an ask that ended in a fault.
fn answer_of(fault: &Transient) -> Answer {
    match fault {
        Transient::RateLimited(_) => Answer::Busy,
        Transient::Contradiction(_) => Answer::Contradiction,
        Transient::Unreachable(_) | Transient::Misconfigured(_) => Answer::Unreachable,
    }
}

#[async_trait]
impl Verifier for HttpVerifier {
    async fn attest_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        let quote = awarded_quote(case)?;
        let statement = Statement::Delivery {
            payment_id: case.payment_id.clone(),
            quote_hash: quote.hash(),
            payout_account: quote.quote().payout_account.clone(),
        };
        self.attest(verifier, case, DELIVERY_ATTESTATION_PATH, statement).await
    }

    async fn attest_non_delivery(
        &self,
        verifier: &VerifierMember,
        case: &VerificationCase,
    ) -> Result<Option<String>, Transient> {
        let quote_hash = awarded_quote(case)?.hash();
        let statement = Statement::NonDelivery { payment_id: case.payment_id.clone(), quote_hash };
        self.attest(verifier, case, NON_DELIVERY_ATTESTATION_PATH, statement).await
    }

    fn follows_reassignments(&self, verifier: &VerifierMember) -> bool {
        let origin = origin(&verifier.endpoint);
        origin.is_some_and(|origin| self.asker.records.follows_reassignments(&origin, &verifier.account))
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
fn unreachable(verifier: &VerifierMember, what: &str) -> Transient {
    Transient::unreachable(about(verifier, what))
}

/// A verifier whose answer cannot be one.
fn contradiction(verifier: &VerifierMember, what: &str) -> Transient {
    Transient::contradiction(about(verifier, what))
}

fn about(verifier: &VerifierMember, what: &str) -> String {
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
