//! Opening a quote-request batch (spec 4.3).

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::time::timeout;

use events::{
    CommitId, Hash32, OwnedAsset, QuoteRequestEvent, QuoteRequestId, Terms,
    event::{CounterpartyDecision, EscrowPlan},
    quote_request::QuoteRequestOpened,
    time::{Timestamp, unix_seconds},
};
use identity::Proven;
use journal::{Commit, Position};
use net::callers::{Caller, Kind, Refusal, price};
use projections::QuoteRequestView;

use crate::{
    App,
    admission::{
        open_windows::Window,
        policy::{Proposal, RequestKind},
        ready_chains,
        write_permits::Permit,
    },
    award,
    error::{Code, Error},
    existing::{EXEMPT, READ_MAX, is_unchanged, may_look_up, stated::Stated},
    idempotency::{KeyError, Keyed, append_first},
    long_poll,
    request::{
        batch_terms::{BatchTerms, comes_to_the_same},
        body::JsonBody,
        envelope,
        quote_request::QuoteRequest,
    },
    views::{
        payments::read_failed,
        quote_requests::{AuctionStatistics, from_journal},
    },
};

/// The batch, and whether it was there before.
///
/// # Errors
/// What the quote-request is refused with; see [`Code`].
pub async fn open(
    state: &App,
    correlation: &str,
    caller: &Caller,
    secret: Option<Hash32>,
    body: JsonBody,
    permit: Permit,
) -> Result<(QuoteRequestView, bool), Error> {
    // Held until it is answered, also where nothing is appended.
    let permit = Arc::new(permit);
    match attempt(state, correlation, caller, secret, &body, &permit).await {
        Err(refusal) => Ok((existing(state, caller, secret, &body, refusal).await?, true)),
        accepted => accepted,
    }
}

async fn attempt(
    state: &App,
    correlation: &str,
    caller: &Caller,
    secret: Option<Hash32>,
    body: &JsonBody,
    permit: &Arc<Permit>,
) -> Result<(QuoteRequestView, bool), Error> {
    let opening = Opening::read(body, secret, state).await?;
    trace::join_current(opening.quote_request_id.as_str());
    match opening.judge(state, caller).await? {
        Verdict::New { decision, now } => opening.append(state, decision, now, correlation, permit).await,
        Verdict::Replay(view) => Ok((*view, true)),
    }
}

/// The batch that a refused quote-request is a repetition of, whatever the configuration says now; see [`existing`].
///
/// # Errors
/// 409 where it differs from the batch that exists, else `refusal`, with what the journal says of the id.
///
/// [`existing`]: crate::existing
async fn existing(
    state: &App,
    caller: &Caller,
    secret: Option<Hash32>,
    body: &JsonBody,
    refusal: Error,
) -> Result<QuoteRequestView, Error> {
    let stated = Stated::of_order(&body.members).filter(|_| refusal.is_undecided());
    let Some(stated) = stated else { return Err(refusal) };
    let is_account = stated.account.as_ref().is_some_and(|account| account.originator() == stated.originator);
    let id = match secret.filter(|_| is_account) {
        Some(secret) => QuoteRequestId::derive_with_secret(&stated.originator, &stated.request_id, &secret),
        None => QuoteRequestId::derive(&stated.originator, &stated.request_id),
    };
    let seen = state.services.quote_requests.view(&id).await.ok().flatten();
    let view = match seen {
        Some(view) => view,
        None if !may_look_up(caller) => return Err(refusal),
        None => {
            let look_up = state.first_appends.look_up(&id);
            match timeout(READ_MAX, from_journal(state.services.journal.as_ref(), &id)).await {
                Ok(Ok(Some(view))) => view,
                Ok(Ok(None)) => return Err(look_up.nothing(refusal)),
                Ok(Err(_)) | Err(_) => return Err(refusal),
            }
        }
    };
    if stated.account.as_ref().is_some_and(|account| account != view.terms.source.account()) {
        return Err(Code::REQUEST_ID_TAKEN.into());
    }
    let Some(terms) = stated.terms else { return Err(refusal.exists()) };
    if terms.hash() != view.terms_hash {
        return Err(other_economics());
    }
    let Ok(stored) = serde_json::from_str::<Map<String, Value>>(&view.request) else { return Err(refusal.exists()) };
    // A proof is over the whole body, which was checked when the batch was opened.
    if body.members == stored {
        return Ok(view);
    }
    let same_form = !refusal.is_of_form() || is_unchanged(&body.members, &stored, &EXEMPT);
    if !same_form || !is_account {
        return Err(refusal.exists());
    }
    match asked(&body.members, &terms).differences(&asked(&stored, &view.terms)).first() {
        Some(member) => Err(differs(member)),
        None => Ok(view),
    }
}

/// A quote-request whose body is in order.
struct Opening<'a> {
    quote_request_id: QuoteRequestId,
    originator: String,
    proven: Proven,
    /// Hash of the secret by which the caller is told apart, where it proves nothing.
    secret: Option<Hash32>,
    terms_hash: Hash32,
    asked: BatchTerms,
    request: QuoteRequest,
    text: &'a str,
}

/// What an opening comes to.
enum Verdict {
    /// It may be opened, unless another comes first.
    New { decision: Option<CounterpartyDecision>, now: Timestamp },
    /// It was opened before.
    Replay(Box<QuoteRequestView>),
}

impl<'a> Opening<'a> {
    /// Checks a body by itself, and who asks.
    async fn read(body: &'a JsonBody, secret: Option<Hash32>, state: &App) -> Result<Self, Error> {
        let request = QuoteRequest::read(&body.members, &state.corridors)?;
        let proven = state.prove(body).await?;
        let originator = envelope::originator(&proven, &request.order.terms);
        // Nobody else can ask in the name of a DID that has to prove itself.
        let secret = secret.filter(|_| proven.originator().is_none());
        let request_id = &request.order.request_id;
        let quote_request_id = match &secret {
            Some(secret) => QuoteRequestId::derive_with_secret(&originator, request_id, secret),
            None => QuoteRequestId::derive(&originator, request_id),
        };
        let terms_hash = request.order.terms.hash();
        let asked = asked(&body.members, &request.order.terms);
        Ok(Self { quote_request_id, originator, proven, secret, terms_hash, asked, request, text: &body.text })
    }

    /// Checks everything else.
    async fn judge(&self, state: &App, caller: &Caller) -> Result<Verdict, Error> {
        let services = &state.services;
        if let Ok(Some(view)) = services.quote_requests.view(&self.quote_request_id).await {
            return Ok(Verdict::Replay(Box::new(self.replay(state, view).await?)));
        }
        let now = services.clock.now();
        let admitted = self.request.order.check_deadlines(now, state.deadlines);
        let credible = admitted.and_then(|()| envelope::credentials_count(&self.proven));
        let credible = credible.and_then(|()| ready_chains::check_terms(&services.chains, &self.request.order.terms));
        // The policies last, and a window only for what nothing else refuses.
        let paid_for = credible.and_then(|()| Ok(self.charge(caller)?));
        let admitted = paid_for.and_then(|()| services.admission.admit(&self.proposal(), now)).and_then(|decision| {
            self.take_window(state, caller, now)?;
            Ok(decision)
        });
        match admitted {
            Ok(decision) => Ok(Verdict::New { decision, now }),
            Err(refusal) => {
                let look_up = state.first_appends.look_up(&self.quote_request_id);
                // The read model may not have the batch yet; only the journal proves that this is a new one.
                let existing = from_journal(services.journal.as_ref(), &self.quote_request_id).await;
                match existing.map_err(|error| read_failed(&error))? {
                    Some(view) => Ok(Verdict::Replay(Box::new(self.replay(state, view).await?))),
                    None => Err(look_up.nothing(refusal)),
                }
            }
        }
    }

    /// Takes what a new batch costs: of the address that it is asked from, because a DID costs nothing, and of the DID that
    /// proves itself besides.
    fn charge(&self, caller: &Caller) -> Result<(), Refusal> {
        caller.spend(Kind::Unsigned, price::QUOTE_REQUEST)?;
        match self.proven.originator() {
            Some(_) => caller.accept(&self.originator, self.text.len()),
            None => Ok(()),
        }
    }

    /// Takes one of the windows of batches that collect quotes.
    fn take_window(&self, state: &App, caller: &Caller, now: Timestamp) -> Result<(), Error> {
        let window = Window {
            id: &self.quote_request_id,
            closes_at: self.request.order.quote_deadline,
            caller,
            originator: self.proven.originator().map(|_| self.originator.as_str()),
        };
        state.open_windows.admit(&window, state.services.quote_requests.as_ref(), now)
    }

    /// Appends the batch's first commit, and holds `permit` until that has ended.
    async fn append(
        &self,
        state: &App,
        decision: Option<CounterpartyDecision>,
        now: Timestamp,
        correlation: &str,
        permit: &Arc<Permit>,
    ) -> Result<(QuoteRequestView, bool), Error> {
        let commit = Commit {
            stream_id: self.quote_request_id.clone().into(),
            expected: Position::START,
            commit_id: CommitId::random(),
            events: vec![self.event(decision, now).into()],
            correlation: correlation.to_owned(),
            causation: correlation.to_owned(),
        };
        let (windows, id) = (Arc::clone(&state.open_windows), self.quote_request_id.clone());
        let under_way = state.first_appends.begin(commit.stream_id.clone());
        // Whoever has gone before the journal answers has no window either.
        let ended = move |keyed: &Result<Keyed, KeyError>| {
            under_way.end(!matches!(keyed, Err(KeyError::OutcomeUnknown)));
            if matches!(keyed, Err(KeyError::NotStored(_))) {
                windows.give_back(&id);
            }
        };
        let keyed = append_first(Arc::clone(&state.services.journal), commit, Arc::clone(permit), ended).await;
        let keyed = keyed.map_err(|error| match error {
            KeyError::NotStored(answer) => answer,
            KeyError::OutcomeUnknown => outcome_unknown(),
        })?;
        let view = QuoteRequestView::fold(&keyed.commits).ok_or_else(|| {
            tracing::error!(quote_request_id = %self.quote_request_id, "the journal recorded another first commit");
            outcome_unknown()
        })?;
        if keyed.mine { Ok((view, false)) } else { Ok((self.replay(state, view).await?, true)) }
    }

    /// Judges a batch that was opened before under the same id (idempotency rules 3, 5 and 7): it is the answer when it
    /// stands on all that this request asks for, but for the deadlines.
    async fn replay(&self, state: &App, view: QuoteRequestView) -> Result<QuoteRequestView, Error> {
        if view.terms.source.account() != self.request.order.terms.source.account() {
            return Err(Code::REQUEST_ID_TAKEN.into());
        }
        if view.terms_hash != self.terms_hash {
            return Err(other_economics());
        }
        let body: Map<String, Value> = serde_json::from_str(&view.request).map_err(|error| {
            tracing::error!(quote_request_id = %self.quote_request_id, %error, "the batch's request cannot be read");
            Code::INTERNAL_ERROR
        })?;
        let mut differing = self.asked.differences(&asked(&body, &view.terms));
        if !differing.is_empty() {
            let batch = award::load(state, &self.quote_request_id).await?;
            differing.retain(|member| !comes_to_the_same(member, &self.request.order, &batch.opened));
        }
        differing.first().map_or(Ok(view), |member| Err(differs(member)))
    }

    fn proposal(&self) -> Proposal<'_> {
        Proposal {
            payer_is_contract: None,
            kind: RequestKind::QuoteRequest,
            id: self.quote_request_id.as_str(),
            originator: &self.originator,
            proven: &self.proven,
            payer: self.request.order.terms.source.account(),
            terms: &self.request.order.terms,
            required_policies: &self.request.order.required_policies,
        }
    }

    fn event(&self, counterparty: Option<CounterpartyDecision>, now: Timestamp) -> QuoteRequestEvent {
        let QuoteRequest { order, quote_deadline_text, fulfillment_deadline_text } = &self.request;
        let escrow = EscrowPlan {
            chain_id: order.terms.source.asset().chain().clone(),
            contract: order.escrow_contract.clone(),
            reserver: order.reserver.clone(),
            releaser: order.verifier.account.clone(),
            reserve_deadline: 0,
            fulfillment_deadline: 0,
            refund_after: 0,
        };
        QuoteRequestEvent::Opened(Box::new(QuoteRequestOpened {
            quote_request_id: self.quote_request_id.clone(),
            request_id: order.request_id.clone(),
            originator: self.originator.clone(),
            terms: order.terms.clone(),
            terms_hash: self.terms_hash,
            quote_deadline: order.quote_deadline,
            quote_deadline_text: quote_deadline_text.clone(),
            fulfillment_deadline: order.fulfillment_deadline,
            fulfillment_deadline_text: fulfillment_deadline_text.clone(),
            escrow: escrow.of_batch(unix_seconds(order.fulfillment_deadline), order.refund_delay_seconds),
            fulfillment_proxies: order.fulfillment_proxies.clone(),
            verifier: order.verifier.clone(),
            whitelist: order.whitelist.clone(),
            blacklist: order.blacklist.clone(),
            required_policies: order.required_policies.clone(),
            counterparty,
            identities: self.proven.identities(),
            selector: order.selector.map(|selector| selector.key()),
            selector_answer_by: order.selector.map(|selector| {
                selector.of_payment(order.quote_deadline, unix_seconds(order.fulfillment_deadline)).answer_by
            }),
            caller_secret_hash: self.secret,
            opened_at: now,
            request: self.text.to_owned(),
        }))
    }
}

/// What the body of a quote-request with these economics stands on besides.
fn asked(body: &Map<String, Value>, terms: &Terms) -> BatchTerms {
    let source = terms.source.family();
    BatchTerms::of(body, source, terms.destination().first().map_or(source, OwnedAsset::family))
}

fn other_economics() -> Error {
    let message = "The request_id was used for a quote-request with other economics. Use a new request_id.";
    Error::new(Code::IDEMPOTENCY_TERMS_MISMATCH, message)
}

fn differs(member: &str) -> Error {
    let message = format!(
        "{member}: differs from the quote-request that was opened under this request_id before, by you or by somebody \
         else. Use a new request_id; with a Caller-Secret nobody else can use one of yours."
    );
    Error::new(Code::IDEMPOTENCY_TERMS_MISMATCH, message)
}

fn outcome_unknown() -> Error {
    let message = "It is not known whether the quote-request was accepted. Send the same request again: it can be \
                   accepted only once.";
    Error::new(Code::OUTCOME_UNKNOWN, message)
}

/// The batch once its quotes are collected, or when the long poll is over, with who was asked for quotes and who declined.
pub async fn collected(
    state: &App,
    caller: &Caller,
    view: QuoteRequestView,
    long_poll_max: Duration,
) -> (QuoteRequestView, AuctionStatistics) {
    let quote_requests = &state.services.quote_requests;
    let changed = |view: &QuoteRequestView, left| {
        let (id, version) = (view.quote_request_id.clone(), view.version);
        async move { quote_requests.changed(&id, version, left).await }
    };
    // Anybody may have this batch opened, and whoever names it is held.
    let collected = |view: &QuoteRequestView| view.quotes.is_some();
    let view = long_poll::until(state, caller, false, view, long_poll_max, collected, changed).await;
    let (journal, auctions) = (state.services.journal.as_ref(), state.services.auctions.as_ref());
    let statistics = state.auction_progress.of_batch(journal, auctions, caller, &view).await;
    (view, statistics)
}
