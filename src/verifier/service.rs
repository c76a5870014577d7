//! The verifier's HTTP service.

use std::{io, sync::Arc, time::Duration};

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
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::{info, warn};

use sagas::ports::{Transient, VerificationCase};
use settler::protocol::{
    self, AttestationRequest, AttestationResponse, AttestationStatus, DELIVERY_ATTESTATION_PATH, MESSAGE_BYTES_MAX,
    NON_DELIVERY_ATTESTATION_PATH, Version,
};

use super::{Judge, Verdict};

/// Judgements under way at a time. Each reads the chains, and the nodes' capacity is what runs out first.
const JUDGEMENTS_MAX: usize = 64;
/// How long a body may take to arrive.
const BODY_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a judgement may take, which is a handful of calls to the chains' nodes.
const JUDGEMENT_WAIT_MAX: Duration = Duration::from_secs(20);
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The routes of a verifier: the two attestations and `/healthz`.
pub fn router(judge: Arc<dyn Judge>) -> Router {
    let service = Arc::new(Service { judge, judgements: Semaphore::new(JUDGEMENTS_MAX) });
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

/// Serves [`router`] until `shutdown`, and then until the requests under way are answered.
///
/// # Errors
/// What the listener says when it can accept no more.
pub async fn serve(listener: TcpListener, judge: Arc<dyn Judge>, shutdown: CancellationToken) -> io::Result<()> {
    axum::serve(listener, router(judge)).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

struct Service {
    judge: Arc<dyn Judge>,
    judgements: Semaphore,
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// What is said to have happened.
#[derive(Debug, Clone, Copy)]
enum Claim {
    Delivery,
    NonDelivery,
}

async fn attest_delivery(State(service): State<Arc<Service>>, request: Request) -> Result<Response, Problem> {
    service.attest(Claim::Delivery, request).await
}

async fn attest_non_delivery(State(service): State<Arc<Service>>, request: Request) -> Result<Response, Problem> {
    service.attest(Claim::NonDelivery, request).await
}

impl Service {
    async fn attest(&self, claim: Claim, request: Request) -> Result<Response, Problem> {
        let case = read_case(request).await?;
        let _permit = self.judgements.try_acquire().map_err(|_| Problem::Busy)?;
        let judged = async {
            match claim {
                Claim::Delivery => self.judge.delivery(&case).await,
                Claim::NonDelivery => self.judge.non_delivery(&case).await,
            }
        };
        let verdict = match timeout(JUDGEMENT_WAIT_MAX, judged).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(Transient(reason))) => {
                warn!(payment_id = %case.payment_id, ?claim, reason, "chains cannot be read");
                return Err(Problem::ChainsUnavailable);
            }
            Err(_) => {
                warn!(payment_id = %case.payment_id, ?claim, "chains do not answer in time");
                return Err(Problem::ChainsUnavailable);
            }
        };
        info!(payment_id = %case.payment_id, ?claim, ?verdict, "judged");
        Ok(Json(answer(verdict)).into_response())
    }
}

fn answer(verdict: Verdict) -> AttestationResponse {
    let (status, signature, reason) = match verdict {
        Verdict::Attested { signature } => (AttestationStatus::Attested, Some(signature), None),
        Verdict::Pending { reason } => (AttestationStatus::Pending, None, Some(reason)),
        Verdict::Refused { reason } => (AttestationStatus::Refused, None, Some(reason)),
    };
    AttestationResponse { version: Version, status, signature, reason }
}

async fn read_case(request: Request) -> Result<VerificationCase, Problem> {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Err(Problem::Invalid("content type must be application/json".to_owned()));
    }
    let body = read_body(request).await?;
    let request: AttestationRequest = protocol::read(&body).map_err(|error| match error {
        protocol::Error::TooLarge => Problem::TooLarge,
        malformed @ protocol::Error::Malformed(_) => Problem::Invalid(malformed.to_string()),
    })?;
    Ok(VerificationCase {
        payment_id: request.payment_id,
        terms: request.terms,
        escrow: request.escrow.into(),
        quote_document: request.quote,
    })
}

async fn read_body(request: Request) -> Result<Bytes, Problem> {
    let read = timeout(BODY_WAIT_MAX, Bytes::from_request(request, &())).await;
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
    Busy,
    ChainsUnavailable,
    Internal,
}

#[derive(Serialize)]
struct ProblemBody<'a> {
    code: &'static str,
    message: &'a str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, code, message) = match &self {
            Self::Invalid(message) => (StatusCode::BAD_REQUEST, "INVALID_REQUEST", message.as_str()),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "REQUEST_TOO_LARGE", "body is too large"),
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this path"),
            Self::WrongMethod => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "method is not offered here"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "BUSY", "too many requests are under way"),
            Self::ChainsUnavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "CHAINS_UNAVAILABLE", "the chains cannot be read at the moment")
            }
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "unexpected error"),
        };
        let mut response = (status, Json(ProblemBody { code, message })).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}
