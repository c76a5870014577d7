//! `POST /v1/payments` (spec 4.1).

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::HeaderMap,
};
use chrono::TimeDelta;
use tokio::time::Instant;

use events::{
    CommitId, Hash32, PaymentEvent, PaymentId,
    event::Submitted,
    journal::{AppendError, Commit, Position},
    time::Timestamp,
};
use projections::PaymentView;

use super::{
    authorizer::{AuthorizationRequest, AuthorizeError, Authorized},
    body::JsonBody,
    error::{ApiError, Code},
    payment_body::PaymentResponse,
    payment_request::PaymentRequest,
    payments::{from_journal, read_failed},
    request_id::RequestId,
    state::HttpState,
};
use crate::config::DeadlinesConfig;

/// How often an append whose outcome is unknown is repeated. The same commit can be stored only once, so repeating
/// asks the same question again.
const RESOLVE_ATTEMPTS: u32 = 2;

/// Accepts a payment, or finds the one that was accepted under this `request_id`, and holds for its outcome.
pub(super) async fn handle(
    State(state): State<Arc<HttpState>>,
    Extension(correlation): Extension<RequestId>,
    request: Request,
) -> Result<Json<PaymentResponse>, ApiError> {
    let hold_max = hold(request.headers(), state.hold_max());
    let body = JsonBody::read(request, &state).await?;
    let request = PaymentRequest::read(&body.members, &state.corridors)?;
    let originator = request.terms.source.account().originator();
    let payment_id = PaymentId::derive(&originator, &request.request_id);
    let submission = Submission { terms_hash: request.terms.hash(), payment_id, originator, request, text: body.text };

    let authorized = submission.authorize(&state).await?;
    let respond = |view, replay| Json(PaymentResponse::new(view, replay, &state.http.base_url));
    if let Some(view) = submission.known(&state).await {
        return Ok(respond(submission.replay(view)?, true));
    }
    let now = state.services.clock.now();
    if let Err(fault) = check_deadlines(&submission.request, now, state.deadlines) {
        // The read model may not have the payment yet; only the journal proves that this is a new one.
        let existing = from_journal(state.services.journal.as_ref(), &submission.payment_id).await;
        return match existing.map_err(|error| read_failed(&error))? {
            Some(view) => Ok(respond(submission.replay(view)?, true)),
            None => Err(fault),
        };
    }
    match submission.append(&state, authorized, now, &correlation).await? {
        Accepted::New(view) => Ok(respond(outcome(&state, view, hold_max).await, false)),
        Accepted::Before(view) => Ok(respond(submission.replay(view)?, true)),
    }
}

/// A submission whose body is in order.
struct Submission {
    payment_id: PaymentId,
    originator: String,
    terms_hash: Hash32,
    request: PaymentRequest,
    text: String,
}

/// The payment behind a submission.
enum Accepted {
    /// This submission created it.
    New(PaymentView),
    /// Another one did, before.
    Before(PaymentView),
}

impl Submission {
    async fn authorize(&self, state: &HttpState) -> Result<Authorized, ApiError> {
        let request = &self.request;
        let authorization = AuthorizationRequest {
            payment_id: &self.payment_id,
            terms: &request.terms,
            terms_hash: self.terms_hash,
            quote_deadline: request.quote_deadline,
            fulfillment_deadline: request.fulfillment_deadline,
            refund_delay_seconds: request.refund_delay_seconds,
            escrow_contract: &request.escrow_contract,
            permit2: &request.permit2,
            reserver: &request.reserver,
            releaser: &request.verifier.account,
            message_scheme: request.message_scheme,
            signed_messages: &request.signed_messages,
        };
        state.services.authorizer.authorize(&authorization).await.map_err(|error| match error {
            AuthorizeError::Refused(reason) => ApiError::new(Code::INVALID_SENDER_AUTH, reason),
            AuthorizeError::Unavailable(reason) => {
                tracing::warn!(reason, "signature could not be judged");
                Code::SERVICE_UNAVAILABLE.into()
            }
        })
    }

    /// The payment as the read model knows it. What it does not know, the append finds out.
    async fn known(&self, state: &HttpState) -> Option<PaymentView> {
        state.services.payments.view(&self.payment_id).await.ok().flatten()
    }

    /// Judges a payment that was accepted before under the same id (idempotency rules 3, 5 and 7).
    fn replay(&self, view: PaymentView) -> Result<PaymentView, ApiError> {
        if view.source.account() != self.request.terms.source.account() {
            return Err(Code::REQUEST_ID_TAKEN.into());
        }
        if view.terms_hash != self.terms_hash {
            return Err(ApiError::from(Code::IDEMPOTENCY_TERMS_MISMATCH).about(&self.payment_id));
        }
        Ok(view)
    }

    fn event(&self, authorized: Authorized, now: Timestamp) -> PaymentEvent {
        let request = &self.request;
        PaymentEvent::Submitted(Box::new(Submitted {
            payment_id: self.payment_id.clone(),
            request_id: request.request_id.clone(),
            originator: self.originator.clone(),
            terms: request.terms.clone(),
            terms_hash: self.terms_hash,
            quote_deadline: request.quote_deadline,
            fulfillment_deadline: request.fulfillment_deadline,
            authorization: authorized.authorization,
            escrow: authorized.escrow,
            fulfillment_proxies: request.fulfillment_proxies.clone(),
            verifier: request.verifier.clone(),
            whitelist: request.whitelist.clone(),
            blacklist: request.blacklist.clone(),
            required_policies: request.required_policies.clone(),
            collected_quote: None,
            counterparty: None,
            submitted_at: now,
            request: self.text.clone(),
        }))
    }

    /// Claims the payment's id with its first commit.
    async fn append(
        &self,
        state: &HttpState,
        authorized: Authorized,
        now: Timestamp,
        correlation: &RequestId,
    ) -> Result<Accepted, ApiError> {
        let commit = Commit {
            payment_id: self.payment_id.clone(),
            expected: Position::START,
            commit_id: CommitId::random(),
            events: vec![self.event(authorized, now)],
            correlation: correlation.as_str().to_owned(),
            causation: correlation.as_str().to_owned(),
        };
        let journal = state.services.journal.as_ref();
        let mut unknown = false;
        for _ in 0..=RESOLVE_ATTEMPTS {
            match journal.append(&commit).await {
                Ok(recorded) => {
                    return PaymentView::begin(&recorded).map(Accepted::New).ok_or_else(|| {
                        tracing::error!(payment_id = %self.payment_id, "the journal recorded another first commit");
                        self.outcome_unknown()
                    });
                }
                Err(AppendError::Conflict) => return self.winner(state, &commit.commit_id, unknown).await,
                // Nothing is stored by this call, but an earlier one may have been.
                Err(AppendError::Unavailable(reason)) if unknown => {
                    tracing::warn!(payment_id = %self.payment_id, reason, "append could not be resolved");
                }
                Err(AppendError::Unavailable(reason)) => {
                    tracing::warn!(payment_id = %self.payment_id, reason, "submission was not accepted");
                    return Err(Code::SERVICE_UNAVAILABLE.into());
                }
                Err(AppendError::Unknown(reason)) => {
                    tracing::warn!(payment_id = %self.payment_id, reason, "outcome of the append is unknown");
                    unknown = true;
                }
                Err(AppendError::Unacceptable(reason)) => {
                    tracing::error!(payment_id = %self.payment_id, reason, "journal refuses the submission");
                    return Err(if unknown { self.outcome_unknown() } else { Code::INTERNAL_ERROR.into() });
                }
            }
            if let Some(accepted) = self.stored(state, &commit.commit_id).await {
                return Ok(accepted);
            }
        }
        Err(self.outcome_unknown())
    }

    /// Who won the claim, after the journal said that another commit came first.
    async fn winner(&self, state: &HttpState, mine: &CommitId, unknown: bool) -> Result<Accepted, ApiError> {
        let commits = state.services.journal.load(&self.payment_id).await;
        let commits = commits.map_err(|error| if unknown { self.outcome_unknown() } else { read_failed(&error) })?;
        let first_is_mine = commits.first().is_some_and(|first| first.commit_id == *mine);
        let view = PaymentView::fold(&commits).ok_or_else(|| self.outcome_unknown())?;
        Ok(if first_is_mine { Accepted::New(view) } else { Accepted::Before(view) })
    }

    /// What the journal holds after an append of unknown outcome; `None` when that cannot be said (yet).
    async fn stored(&self, state: &HttpState, mine: &CommitId) -> Option<Accepted> {
        let commits = state.services.journal.load(&self.payment_id).await.ok()?;
        let first_is_mine = commits.first()?.commit_id == *mine;
        let view = PaymentView::fold(&commits)?;
        Some(if first_is_mine { Accepted::New(view) } else { Accepted::Before(view) })
    }

    fn outcome_unknown(&self) -> ApiError {
        ApiError::from(Code::OUTCOME_UNKNOWN).about(&self.payment_id)
    }
}

/// The deadlines of a new payment against the clock: in the future and with room to act (design: order of checks; a
/// replay is answered whatever its deadlines). That they are in order was checked with the body.
fn check_deadlines(request: &PaymentRequest, now: Timestamp, least: DeadlinesConfig) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(Code::INVALID_DEADLINE, message));
    let (quote, fulfillment) = (request.quote_deadline, request.fulfillment_deadline);
    for (name, deadline) in [("quote_deadline", quote), ("fulfillment_deadline", fulfillment)] {
        if deadline <= now {
            return invalid(format!("{name}: must be in the future"));
        }
    }
    if quote - now < milliseconds(least.quote_ms_min) {
        return invalid(format!("quote_deadline: must be at least {} ms away", least.quote_ms_min));
    }
    if fulfillment - quote < milliseconds(least.settlement_ms_min) {
        let least = least.settlement_ms_min;
        return invalid(format!("fulfillment_deadline: must be at least {least} ms after quote_deadline"));
    }
    Ok(())
}

fn milliseconds(count: u64) -> TimeDelta {
    i64::try_from(count).ok().and_then(TimeDelta::try_milliseconds).unwrap_or(TimeDelta::MAX)
}

/// How long to hold: the configured time, shortened by `Prefer: wait=N` in seconds (RFC 7240).
fn hold(headers: &HeaderMap, hold_max: Duration) -> Duration {
    let preferences = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut parameters = preferences.flat_map(|value| value.split([',', ';']));
    let wait = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let seconds: u64 = value.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("wait").then(|| Duration::from_secs(seconds))
    });
    wait.map_or(hold_max, |wait| wait.min(hold_max))
}

/// The payment as it stands once it is final, or when the hold is over.
async fn outcome(state: &HttpState, mut view: PaymentView, hold_max: Duration) -> PaymentView {
    let until = Instant::now() + hold_max;
    let Ok(_held) = state.holds.try_acquire() else { return view };
    while !view.status.is_final() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let services = &state.services;
        tokio::select! {
            changed = services.payments.changed(&view.payment_id, view.version, left) => match changed {
                Some(newer) => view = newer,
                None => break,
            },
            () = services.stopping.cancelled() => break,
        }
    }
    view
}
