//! Submitting a payment (spec 4.1): read, judged, then accepted by the first append under its id.

use std::{sync::Arc, time::Duration};

use events::{
    Account, CommitId, Hash32, OwnedAsset, PaymentEvent, PaymentId,
    event::{CounterpartyDecision, Submitted},
    time::Timestamp,
};
use identity::Proven;
use journal::{Commit, Position};
use net::callers::Caller;
use projections::PaymentView;

use crate::{
    App,
    admission::{
        Admission,
        policy::{Proposal, RequestKind},
        ready_chains,
        write_permits::Permit,
    },
    authorization::{AuthorizationRequest, Authorized, MessageScheme},
    error::{Code, Error},
    existing::Refused,
    funds::{Draw, Promised, Spend},
    idempotency::{KeyError, Keyed, append_first},
    long_poll,
    request::{body::JsonBody, envelope, horizons, order::Order, payment::PaymentRequest, sender_auth},
    views::payments::{from_journal, read_failed},
};

/// The payment, and whether it was accepted before.
///
/// # Errors
/// What the submission is refused with; see [`Code`].
pub async fn accept(
    state: &App,
    correlation: &str,
    caller: Caller,
    body: JsonBody,
    permit: Permit,
) -> Result<(PaymentView, bool), Error> {
    // Held until it is answered, also where nothing is appended.
    accept_under(state, correlation, &caller, &body, &Arc::new(permit)).await
}

/// As [`accept`], under a permit that others share.
pub(crate) async fn accept_under(
    state: &App,
    correlation: &str,
    caller: &Caller,
    body: &JsonBody,
    permit: &Arc<Permit>,
) -> Result<(PaymentView, bool), Error> {
    match attempt(state, correlation, caller, body, permit).await {
        Err(refusal) => Ok((Refused::submission(body, caller).answer(state, refusal).await?.view, true)),
        accepted => accepted,
    }
}

async fn attempt(
    state: &App,
    correlation: &str,
    caller: &Caller,
    body: &JsonBody,
    permit: &Arc<Permit>,
) -> Result<(PaymentView, bool), Error> {
    let submission = Submission::read(body, caller, state).await?;
    trace::join_current(submission.payment_id.as_str());
    let admitted = match submission.judge(state, &state.services.admission).await? {
        Verdict::New(admitted) => admitted,
        Verdict::Replay(view) => return Ok((*view, true)),
    };
    submission.charge()?;
    match submission.append(state, admitted, correlation, permit).await? {
        Accepted::New(view) => Ok((view, false)),
        Accepted::Before(view) => Ok((submission.replay(view)?, true)),
    }
}

/// A submission whose body is in order.
pub(crate) struct Submission<'a> {
    pub(crate) payment_id: PaymentId,
    originator: String,
    proven: Proven,
    pub(crate) terms_hash: Hash32,
    request: PaymentRequest,
    text: &'a str,
    caller: &'a Caller,
}

/// What a submission comes to.
pub(crate) enum Verdict {
    /// It may be accepted, unless another comes first.
    New(Box<Admitted>),
    /// It was accepted before.
    Replay(Box<PaymentView>),
}

/// What is known of a submission that may be accepted.
pub(crate) struct Admitted {
    authorized: Authorized,
    counterparty: Option<CounterpartyDecision>,
    /// What the payer has signed away by it.
    promised: Promised,
    now: Timestamp,
}

/// The payment behind a submission.
pub(crate) enum Accepted {
    /// This submission created it.
    New(PaymentView),
    /// Another one did, before.
    Before(PaymentView),
}

impl<'a> Submission<'a> {
    /// What is asked for.
    pub(crate) fn order(&self) -> &Order {
        &self.request.order
    }

    /// Checks a body by itself, and who asks.
    pub(crate) async fn read(body: &'a JsonBody, caller: &'a Caller, state: &App) -> Result<Self, Error> {
        let submission = Self::of_purchase(body, None, caller, state).await?;
        // What else such a request says (settlers, policies, the auction's end) is the gateway's to say, as nobody signs it.
        if MessageScheme::OF_X402.contains(&submission.request.sender_auth.message_scheme) {
            return Err(Code::MESSAGE_SCHEME_NOT_SERVED.into());
        }
        Ok(submission)
    }

    /// The same for the request that the gateway has made of what a client of x402 sent, who is `buyer` where the source is its
    /// merchant's account.
    pub(crate) async fn of_purchase(
        body: &'a JsonBody,
        buyer: Option<&Account>,
        caller: &'a Caller,
        state: &App,
    ) -> Result<Self, Error> {
        let request = PaymentRequest::read(&body.members, &state.corridors)?;
        sender_auth::check_payloads(&body.text)?;
        let proven = state.prove(body).await?;
        let originator = match buyer {
            Some(buyer) => buyer.originator(),
            None => envelope::originator(&proven, &request.order.terms),
        };
        let payment_id = PaymentId::derive(&originator, &request.order.request_id);
        Ok(Self {
            terms_hash: request.order.terms.hash(),
            payment_id,
            originator,
            proven,
            request,
            text: &body.text,
            caller,
        })
    }

    /// Checks everything else, in the order of the design, and accepts nothing.
    pub(crate) async fn judge(&self, state: &App, admission: &Admission) -> Result<Verdict, Error> {
        let authorized = self.authorize(state).await?;
        if let Some(view) = self.known(state).await {
            return Ok(Verdict::Replay(Box::new(self.replay(view)?)));
        }
        let now = state.services.clock.now();
        match self.admit(state, admission, &authorized, now).await {
            Ok((counterparty, promised)) => {
                Ok(Verdict::New(Box::new(Admitted { authorized, counterparty, promised, now })))
            }
            // The read model may not have the payment yet; only the journal proves that this is a new one.
            Err(refusal) => {
                let look_up = state.first_appends.look_up(&self.payment_id);
                match self.stored(state).await? {
                    Some(view) => Ok(Verdict::Replay(Box::new(view))),
                    None => Err(look_up.nothing(refusal)),
                }
            }
        }
    }

    /// Makes all checks and accepts nothing, whether or not the gateway is paused: the payment, where it was accepted before.
    pub(crate) async fn rehearse(&self, state: &App) -> Result<Option<PaymentView>, Error> {
        match self.judge(state, &state.services.admission.unpaused()).await? {
            Verdict::Replay(view) => Ok(Some(*view)),
            // A submission would find out by its append.
            Verdict::New(_) => self.stored(state).await,
        }
    }

    /// Whether something new may be made of it (design: order of checks). What asks a chain comes behind what does not, and
    /// the counterparties last, as the policies are nobody else's business.
    async fn admit(
        &self,
        state: &App,
        admission: &Admission,
        authorized: &Authorized,
        now: Timestamp,
    ) -> Result<(Option<CounterpartyDecision>, Promised), Error> {
        let order = &self.request.order;
        order.check_deadlines(now, state.deadlines)?;
        state.corridors.check_scheme(order.terms.source.asset().chain(), self.request.sender_auth.message_scheme)?;
        horizons::check_plan(&authorized.escrow, order.quote_deadline, state.deadlines)?;
        envelope::credentials_count(&self.proven)?;
        ready_chains::check_terms(&state.services.chains, &order.terms)?;
        if let Some(restored) = &state.services.restored {
            restored.check_payment(&self.payment_id, &authorized.escrow, order.terms.source.account()).await?;
        }
        state.corridors.check_drawn(&authorized.authorization, &order.terms.source)?;
        let (authorizer, authorization) = (&state.services.authorizer, self.authorization());
        let is_contract = authorizer.payer_is_contract(&authorization, authorized).await?;
        authorizer.confirm(&authorization, authorized).await?;
        let drawn = &authorized.authorization;
        let (source, payer) = (&order.terms.source, drawn.drawn_from(order.terms.source.account()));
        let of_buyer = match payer == source.account() {
            true => None,
            // It is of the family of the source, whose chain it was judged for.
            false => Some(OwnedAsset::new(source.asset().clone(), payer.as_str()).map_err(|_| Code::INVALID_REQUEST)?),
        };
        let source = of_buyer.as_ref().unwrap_or(source);
        let spend = Spend { source, amount: drawn.permitted(), draw: Draw::of(drawn), escrow: &authorized.escrow };
        let payments = state.services.payments.as_ref();
        let promised = state.funds.promised(&spend, &self.payment_id, payments, now).await?;
        Ok((admission.admit(&self.proposal(payer, is_contract), now)?, promised))
    }

    /// The payment that was accepted before under the same id, as the journal has it.
    async fn stored(&self, state: &App) -> Result<Option<PaymentView>, Error> {
        let existing = from_journal(state.services.journal.as_ref(), &self.payment_id).await;
        existing.map_err(|error| read_failed(&error))?.map(|view| self.replay(view)).transpose()
    }

    fn proposal<'b>(&'b self, payer: &'b Account, payer_is_contract: bool) -> Proposal<'b> {
        Proposal {
            payer,
            payer_is_contract: Some(payer_is_contract),
            kind: RequestKind::Payment,
            id: self.payment_id.as_str(),
            originator: &self.originator,
            proven: &self.proven,
            terms: &self.request.order.terms,
            required_policies: &self.request.order.required_policies,
        }
    }

    async fn authorize(&self, state: &App) -> Result<Authorized, Error> {
        let authorized = state.services.authorizer.authorize(&self.authorization()).await;
        // An account that is a contract is asked on chain, before anything else is.
        authorized
            .map_err(|error| ready_chains::explained(&state.services.chains, &self.order().terms.source, error.into()))
    }

    fn authorization(&self) -> AuthorizationRequest<'_> {
        let (order, sender_auth) = (&self.request.order, &self.request.sender_auth);
        AuthorizationRequest {
            signed_messages: &sender_auth.signed_messages,
            caller: Some(self.caller),
            ..order.authorization(&self.payment_id, self.terms_hash, sender_auth.message_scheme)
        }
    }

    /// The payment as the read model knows it. What it does not know, the append finds out.
    async fn known(&self, state: &App) -> Option<PaymentView> {
        state.services.payments.view(&self.payment_id).await.ok().flatten()
    }

    /// Judges a payment that was accepted before under the same id (idempotency rules 3, 5 and 7).
    pub(crate) fn replay(&self, view: PaymentView) -> Result<PaymentView, Error> {
        if view.source.account() != self.request.order.terms.source.account() {
            return Err(Code::REQUEST_ID_TAKEN.into());
        }
        if view.terms_hash != self.terms_hash {
            return Err(Error::from(Code::IDEMPOTENCY_TERMS_MISMATCH).about(&self.payment_id));
        }
        Ok(view)
    }

    fn event(
        &self,
        authorized: Authorized,
        counterparty: Option<CounterpartyDecision>,
        now: Timestamp,
    ) -> PaymentEvent {
        let request = &self.request.order;
        let (quote_deadline, reserve_deadline) = (request.quote_deadline, authorized.escrow.reserve_deadline);
        let selector = request.selector.map(|selector| selector.of_payment(quote_deadline, reserve_deadline));
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
            selector,
            counterparty,
            identities: self.proven.identities(),
            submitted_at: now,
            request: self.text.to_owned(),
        }))
    }

    /// Takes what a new payment costs, of its originator.
    pub(crate) fn charge(&self) -> Result<(), Error> {
        Ok(self.caller.accept(&self.originator, self.text.len())?)
    }

    /// Appends the payment's first commit, and holds `permit` until that has ended.
    pub(crate) async fn append(
        &self,
        state: &App,
        admitted: Box<Admitted>,
        correlation: &str,
        permit: &Arc<Permit>,
    ) -> Result<Accepted, Error> {
        let Admitted { authorized, counterparty, promised, now } = *admitted;
        let commit = Commit {
            stream_id: self.payment_id.clone().into(),
            expected: Position::START,
            commit_id: CommitId::random(),
            events: vec![self.event(authorized, counterparty, now).into()],
            correlation: correlation.to_owned(),
            causation: correlation.to_owned(),
        };
        // What the payer has signed away stays so, whatever becomes of this call, unless it is certain that nothing is stored.
        let kept = promised.keep();
        let under_way = state.first_appends.begin(commit.stream_id.clone());
        let ended = move |keyed: &Result<Keyed, KeyError>| {
            under_way.end(!matches!(keyed, Err(KeyError::OutcomeUnknown)));
            if matches!(keyed, Ok(Keyed { mine: false, .. }) | Err(KeyError::NotStored(_))) {
                kept.take_back();
            }
        };
        let keyed = append_first(Arc::clone(&state.services.journal), commit, Arc::clone(permit), ended).await;
        let keyed = keyed.map_err(|error| match error {
            KeyError::NotStored(answer) => answer,
            KeyError::OutcomeUnknown => self.outcome_unknown(),
        })?;
        let view = PaymentView::fold(&keyed.commits).ok_or_else(|| {
            tracing::error!(payment_id = %self.payment_id, "the journal recorded another first commit");
            self.outcome_unknown()
        })?;
        Ok(if keyed.mine { Accepted::New(view) } else { Accepted::Before(view) })
    }

    fn outcome_unknown(&self) -> Error {
        Error::from(Code::OUTCOME_UNKNOWN).about(&self.payment_id)
    }
}

/// The payment as it stands once it is final, or when the long poll is over. `proven` says whether this call made it, with a
/// signature.
pub async fn outcome(
    state: &App,
    caller: &Caller,
    proven: bool,
    view: PaymentView,
    long_poll_max: Duration,
) -> PaymentView {
    let payments = &state.services.payments;
    let changed = |view: &PaymentView, left| {
        let (payment_id, version) = (view.payment_id.clone(), view.version);
        async move { payments.changed(&payment_id, version, left).await }
    };
    long_poll::until(state, caller, proven, view, long_poll_max, |view| view.status.is_final(), changed).await
}
