//! The verifier's HTTP service.

use std::{mem, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{
        DefaultBodyLimit, FromRequest, Request, State,
        rejection::{BytesRejection, FailedToBufferBody},
    },
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Serialize;
use tokio::{
    net::TcpListener,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{Instrument, Span, debug, field::Empty, info, info_span, warn};

use config::VerifierConfig;
use events::{Hash32, VerifierSet};
use net::{
    origin::origin,
    server::{self, Limits, ThrottledLog},
};
use protocol::{
    AttestationRequest, AttestationResponse, AttestationStatus, DELIVERY_ATTESTATION_PATH, MESSAGE_BYTES_MAX,
    NON_DELIVERY_ATTESTATION_PATH, Version,
};
use sagas::ports::VerificationCase;
use trace::TraceParent;

use super::{
    BUSY, Judge, Verdict,
    bulkhead::{Ask, Permit},
    callers::{Caller, CallerOptions, Callers, Unproven},
    service_metrics::{Answered, ServiceMetrics},
    single_flight::SingleFlight,
};

/// How long a judgement may take, which is a handful of calls to the chains' nodes.
const JUDGEMENT_WAIT_MAX: Duration = Duration::from_secs(20);
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// What says how a signed request has to look (RFC 9421, section 5.1).
const ACCEPT_SIGNATURE: HeaderValue = HeaderValue::from_static(
    r#"gw=("@method" "@target-uri" "content-digest");created;alg="ed25519";tag="gw-verifier""#,
);

/// How a verifier serves.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// What connections may hold on to.
    pub limits: Limits,
    /// How long a body may take to arrive.
    pub body_max: Duration,
    /// Who asks.
    pub callers: CallerOptions,
}

impl From<&VerifierConfig> for ServiceOptions {
    fn from(config: &VerifierConfig) -> Self {
        let (http, callers) = (&config.http, &config.callers);
        let known = callers.gateways.iter().chain(&callers.settlers);
        // Whoever has no Ed25519 key was refused when the file was read.
        let known = known.filter_map(|did| Some((did.clone(), did.ed25519_key().ok()?))).collect();
        Self {
            limits: Limits {
                connections_max: http.connections_max,
                head_max: Duration::from_millis(http.head_ms_max),
                idle_max: Duration::from_millis(http.idle_ms_max),
                write_max: Duration::from_millis(http.write_ms_max),
            },
            body_max: Duration::from_millis(http.body_ms_max),
            callers: CallerOptions {
                origins: callers.origins.iter().filter_map(|text| origin(text)).collect(),
                known,
                signature_seconds_max: callers.signature_seconds_max,
                asks_per_caller_max: callers.asks_per_caller_max,
                judgements_max: callers.judgements_max,
                judgements_per_caller_max: callers.judgements_per_caller_max,
                anonymous_asks_max: callers.anonymous_asks_max,
                anonymous_judgements_max: callers.anonymous_judgements_max,
            },
        }
    }
}

/// The routes of a verifier.
fn router(judge: Arc<dyn Judge>, options: ServiceOptions) -> Router {
    let ServiceOptions { body_max, callers, .. } = options;
    let callers = Callers::new(callers);
    let (flights, refused) = (SingleFlight::new(), ThrottledLog::default());
    let metrics = ServiceMetrics::default();
    let service = Arc::new(Service { judge, callers, flights, body_max, refused, metrics });
    Router::new()
        .route(DELIVERY_ATTESTATION_PATH, post(attest_delivery))
        .route(NON_DELIVERY_ATTESTATION_PATH, post(attest_non_delivery))
        .route("/healthz", get(|| async { Json(Health { status: "ok" }) }))
        .fallback(|| async { Problem::NoSuchPath })
        .method_not_allowed_fallback(|| async { Problem::WrongMethod })
        .layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX))
        .layer(CatchPanicLayer::custom(|_| Problem::Internal.into_response()))
        .with_state(service)
}

/// Serves the two attestations and `/healthz` until `shutdown`, and then for as long as the requests under way take, within bounds.
pub async fn serve(listener: TcpListener, judge: Arc<dyn Judge>, options: ServiceOptions, shutdown: CancellationToken) {
    let limits = options.limits;
    server::serve(listener, router(judge, options), limits, |_| Some(()), shutdown).await;
}

struct Service {
    judge: Arc<dyn Judge>,
    callers: Callers,
    flights: SingleFlight<Judged>,
    body_max: Duration,
    refused: ThrottledLog,
    metrics: ServiceMetrics,
}

/// What came of a judgement; `None` when the chains cannot be read.
type Judged = Option<Verdict>;

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// What is to be attested.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    Delivery,
    NonDelivery,
}

/// A case that was put to this verifier.
pub(super) struct Asked {
    case: VerificationCase,
    /// The hash of all that is asked.
    pub(super) key: Hash32,
}

impl Asked {
    pub(super) fn new(question: Question, mut request: AttestationRequest) -> Self {
        let (payloads, verifier_set) = (mem::take(&mut request.payloads), request.verifier_set.take());
        // Written again, and without what is the payer's own, so that members that are not judged make no other ask of it. Of a set
        // its id says all that is judged: where the others are reached is not.
        let set = verifier_set.as_ref().and_then(VerifierSet::id).map(|id| id.to_string()).unwrap_or_default();
        let key = Hash32::sha256([format!("{question:?} {set} ").as_bytes(), &protocol::write(&request)].concat());
        let case = VerificationCase {
            payment_id: request.payment_id,
            terms: request.terms,
            escrow: request.escrow.into(),
            verifier_set,
            quote_document: request.quote,
            payloads,
        };
        Self { case, key }
    }
}

async fn attest_delivery(State(service): State<Arc<Service>>, request: Request) -> Result<Response, Problem> {
    service.answer(Question::Delivery, request).await
}

async fn attest_non_delivery(State(service): State<Arc<Service>>, request: Request) -> Result<Response, Problem> {
    service.answer(Question::NonDelivery, request).await
}

impl Service {
    async fn answer(self: Arc<Self>, question: Question, request: Request) -> Result<Response, Problem> {
        let answered = Arc::clone(&self).attest(question, request).await;
        self.metrics.answered(match &answered {
            Ok(verdict) => verdict.into(),
            Err(problem) => problem.into(),
        });
        answered.map(|verdict| Json(answer(verdict)).into_response())
    }

    async fn attest(self: Arc<Self>, question: Question, request: Request) -> Result<Verdict, Problem> {
        let (head, body) = request.into_parts();
        let caller = self.callers.recognise(&head)?;
        let Some(ask) = caller.enter() else {
            if let Some(refused) = self.refused.count() {
                let caller = caller.did.as_ref().map(ToString::to_string);
                warn!(
                    refused,
                    caller = caller.as_deref().unwrap_or("anonymous"),
                    "asks are refused: too many under way"
                );
            }
            return Err(if caller.did.is_some() { Problem::Busy } else { Problem::BusyWithUnknown });
        };
        let said = head.headers.get_all(trace::TRACEPARENT).iter().filter_map(|value| value.to_str().ok());
        let said = TraceParent::parse_only(said);
        let asked = read_ask(question, &caller, Request::from_parts(head, body), self.body_max).await?;
        let payment_id = asked.case.payment_id.as_str();
        let span = info_span!(
            target: trace::TARGET, parent: None, "attest",
            otel.kind = "server", payment_id, question = ?question, verdict = Empty, error = Empty,
        );
        trace::join(&span, payment_id, said);
        self.verdict(question, caller, ask, asked).instrument(span).await
    }

    async fn verdict(
        self: Arc<Self>,
        question: Question,
        caller: Caller,
        ask: Ask,
        asked: Asked,
    ) -> Result<Verdict, Problem> {
        if let Err(reason) = self.judge.screen(&asked.case) {
            debug!(payment_id = %asked.case.payment_id, ?question, reason, "refused before any chain was asked");
            return Ok(Verdict::Refused { reason });
        }
        let flight = match self.flights.running(&asked.key) {
            Some(flight) => flight,
            None => {
                let (permit, pace) = (ask.permit().await, caller.pace());
                let (key, service) = (asked.key, Arc::clone(&self));
                let judging = async move {
                    let begun = Instant::now();
                    let judged = service.judge(question, asked.case).await;
                    keep(permit, begun + pace);
                    judged
                };
                self.flights.start(key, judging.instrument(Span::current()))
            }
        };
        let judged = flight.await;
        note(&judged);
        match judged {
            Some(Some(verdict)) => Ok(verdict),
            Some(None) => Err(Problem::ChainsUnavailable),
            None => Err(Problem::Internal),
        }
    }

    async fn judge(&self, question: Question, case: VerificationCase) -> Judged {
        let judged = self.judge_case(question, &case).await;
        self.metrics.judged(&case.escrow.chain_id, judged.as_ref());
        judged
    }

    async fn judge_case(&self, question: Question, case: &VerificationCase) -> Judged {
        let judged = async {
            match question {
                Question::Delivery => self.judge.delivery(case).await,
                Question::NonDelivery => self.judge.non_delivery(case).await,
            }
        };
        match timeout(JUDGEMENT_WAIT_MAX, judged).await {
            Ok(Ok(verdict)) => {
                info!(payment_id = %case.payment_id, ?question, ?verdict, "judged");
                Some(verdict)
            }
            Ok(Err(fault)) => {
                warn!(payment_id = %case.payment_id, ?question, reason = %fault, "chains cannot be read");
                None
            }
            Err(_) => {
                warn!(payment_id = %case.payment_id, ?question, "chains do not answer in time");
                None
            }
        }
    }
}

/// Notes in the span of an ask what it came to.
fn note(judged: &Option<Judged>) {
    if !trace::is_on() {
        return;
    }
    match judged {
        Some(Some(Verdict::Attested { .. })) => Span::current().record("verdict", "attested"),
        Some(Some(Verdict::Pending { .. })) => Span::current().record("verdict", "pending"),
        Some(Some(Verdict::Refused { .. })) => Span::current().record("verdict", "refused"),
        Some(None) => Span::current().record("error", "chains unavailable"),
        None => Span::current().record("error", "internal"),
    };
}

/// Keeps a permit taken until then.
fn keep(permit: Permit, until: Instant) {
    if until > Instant::now() {
        tokio::spawn(async move {
            sleep_until(until).await;
            drop(permit);
        });
    }
}

fn answer(verdict: Verdict) -> AttestationResponse {
    let (status, signature, reason) = match verdict {
        Verdict::Attested { signature } => (AttestationStatus::Attested, Some(signature), None),
        Verdict::Pending { reason } => (AttestationStatus::Pending, None, Some(reason)),
        Verdict::Refused { reason } => (AttestationStatus::Refused, None, Some(reason)),
    };
    AttestationResponse { version: Version, status, signature, reason, follows_reassignments: true }
}

async fn read_ask(question: Question, caller: &Caller, request: Request, body_max: Duration) -> Result<Asked, Problem> {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Problem::Invalid("content type must be application/json".to_owned()));
    }
    let body = read_body(request, body_max).await?;
    caller.sent(&body)?;
    let request: AttestationRequest = protocol::read(&body).map_err(|error| match error {
        protocol::Error::TooLarge => Problem::TooLarge,
        malformed @ protocol::Error::Malformed(_) => Problem::Invalid(malformed.to_string()),
    })?;
    Ok(Asked::new(question, request))
}

async fn read_body(request: Request, body_max: Duration) -> Result<Bytes, Problem> {
    let read = timeout(body_max, Bytes::from_request(request, &())).await;
    let read = read.map_err(|_| Problem::Invalid("body did not arrive in time".to_owned()))?;
    read.map_err(|rejection| match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => Problem::TooLarge,
        _ => Problem::Invalid("body broke off".to_owned()),
    })
}

/// Why there is no answer to a request.
#[derive(Debug)]
enum Problem {
    Invalid(String),
    TooLarge,
    NoSuchPath,
    WrongMethod,
    Unproven(Unproven),
    Busy,
    BusyWithUnknown,
    ChainsUnavailable,
    Internal,
}

impl From<&Problem> for Answered {
    fn from(problem: &Problem) -> Self {
        match problem {
            Problem::Invalid(_) | Problem::TooLarge | Problem::NoSuchPath | Problem::WrongMethod => Self::Invalid,
            Problem::Unproven(_) => Self::Unproven,
            Problem::Busy | Problem::BusyWithUnknown => Self::Busy,
            Problem::ChainsUnavailable => Self::Unavailable,
            Problem::Internal => Self::Internal,
        }
    }
}

impl From<Unproven> for Problem {
    fn from(why: Unproven) -> Self {
        Self::Unproven(why)
    }
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    code: &'static str,
    message: &'a str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let unproven = match &self {
            Self::Unproven(why) => why.to_string(),
            _ => String::new(),
        };
        let (status, code, message) = match &self {
            Self::Invalid(message) => (StatusCode::BAD_REQUEST, "INVALID_REQUEST", message.as_str()),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE", "body is too large"),
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this path"),
            Self::WrongMethod => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "method is not offered here"),
            Self::Unproven(Unproven::Unknown) => (StatusCode::UNAUTHORIZED, "CALLER_UNKNOWN", unproven.as_str()),
            Self::Unproven(_) => (StatusCode::UNAUTHORIZED, "SIGNATURE_INVALID", unproven.as_str()),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, BUSY, "too many requests of this caller are under way"),
            Self::BusyWithUnknown => {
                let message =
                    "too many unsigned requests are under way; known callers that sign have places of their own";
                (StatusCode::SERVICE_UNAVAILABLE, BUSY, message)
            }
            Self::ChainsUnavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "CHAINS_UNAVAILABLE", "the chains cannot be read at the moment")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "unexpected error"),
        };
        let mut response = (status, Json(ProblemBody { code, message })).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert("accept-signature", ACCEPT_SIGNATURE);
        }
        response
    }
}
