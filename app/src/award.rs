//! Awarding a quote (design: HTTP): a payment out of a collected quote.
//!
//! The order of checks is that of a submission: body, then the batch and the quote that it names, because they are what
//! the signature is checked against, then the signature, then a payment that exists, then time and admission. A refusal asks
//! for a payment that exists, too.

use std::sync::Arc;

use serde_json::Value;

use events::{
    Amount, PaymentEvent, PaymentId, QuoteRequestId,
    event::{CounterpartyDecision, EscrowPlan},
    quote::SignedQuote,
    quote_request::CollectedDocument,
    time::Timestamp,
};
use identity::Proven;
use journal::{Position, Recorded, StreamStore};
use net::callers::Caller;
use projections::PaymentView;
use sagas::quote_request::{self, AwardCall, AwardError, AwardOutcome, AwardRefusal, QuoteRequest};

use crate::{
    App,
    admission::{
        policy::{Proposal, RequestKind},
        ready_chains,
        write_permits::Permit,
    },
    authorization::{AuthorizationRequest, Authorized, MessageScheme, SignedMessage},
    error::{Code, Error},
    existing::{Refused, first_appends::UnderWay, may_look_up, not_this_award, stated::Stated},
    funds::{Draw, Promised, Spend},
    request::{award::AwardRequest, body::JsonBody, echo, envelope, fields::Faults, horizons, sender_auth},
    views::payments::read_failed,
};

/// The payment, and whether the quote was awarded to it before.
///
/// # Errors
/// What the award is refused with; see [`Code`].
pub async fn accept(
    state: &App,
    id: QuoteRequestId,
    correlation: &str,
    caller: Caller,
    body: JsonBody,
    permit: Permit,
) -> Result<(PaymentView, bool), Error> {
    // Held until it is answered, also where nothing is appended.
    let permit = Arc::new(permit);
    let request = AwardRequest::read(&body.members);
    if let Err(refusal) = &request
        && !may_look_up(&caller)
    {
        return Err(refusal.clone());
    }
    let batch = load_from(state, &id).await;
    let refusal = match (request, &batch) {
        (Err(refusal), _) => refusal,
        (Ok(_), Err(refusal)) => refusal.clone(),
        (Ok(request), Ok(batch)) => match attempt(state, batch, &request, correlation, &caller, &body, &permit).await {
            Err(refusal) => refusal,
            accepted => return accepted,
        },
    };
    let quote_id = body.members.get("quote_id").and_then(Value::as_str).unwrap_or_default();
    let batch = batch.as_ref().ok().map(|(batch, _)| batch);
    let stated = batch.and_then(|batch| Stated::of_award(&body.members, &batch.opened.terms));
    let fenced = batch.and_then(|batch| batch.awarded.as_ref()).map(|awarded| &awarded.payment_id);
    let refused = Refused { caller: &caller, body: &body, stated, award: Some((&id, quote_id)), fenced };
    Ok((refused.answer(state, refusal).await?.view, true))
}

async fn attempt(
    state: &App,
    (batch, begun): &(QuoteRequest, Position),
    request: &AwardRequest,
    correlation: &str,
    caller: &Caller,
    body: &JsonBody,
    permit: &Arc<Permit>,
) -> Result<(PaymentView, bool), Error> {
    let quote = quote(batch, &request.quote_id)?;
    let mut faults = Faults::default();
    request.sender_auth.check_family(batch.opened.terms.source.family(), &mut faults);
    faults.or(Some(()))?;
    sender_auth::check_payloads(&body.text)?;
    echo::check(&body.members, &batch.opened)?;

    let proven = state.prove(body).await?;
    let originator = awarder(&proven, batch)?;
    let payment_id = PaymentId::derive(&originator, &request.request_id);
    trace::join_current(payment_id.as_str());
    let award = Award { batch, begun: *begun, quote, payment_id };
    let sender_auth = &request.sender_auth;
    let spend = award.authorization(state, sender_auth.message_scheme, &sender_auth.signed_messages)?;
    let spend = AuthorizationRequest { caller: Some(caller), ..spend };
    let source = &batch.opened.terms.source;
    let authorized = state.services.authorizer.authorize(&spend).await;
    // An account that is a contract is asked on chain, before anything else is.
    let authorized =
        authorized.map_err(|error| ready_chains::explained(&state.services.chains, source, error.into()))?;

    let journal = Arc::clone(&state.services.journal);
    let look_up = state.first_appends.look_up(&award.payment_id);
    let existing = journal.load(&(&award.payment_id).into()).await.map_err(|error| read_failed(&error))?;
    if !existing.is_empty() {
        return Ok((award.replay(&existing)?, true));
    }
    let now = state.services.clock.now();
    let admitted = award.admit(state, &originator, &proven, &spend, &authorized, now).await;
    let (counterparty, promised) = admitted.map_err(|refusal| match award.is_fenced() {
        true => refusal.about(&award.payment_id).exists(),
        false => look_up.nothing(refusal),
    })?;
    caller.accept(&originator, body.text.len())?;
    let Authorized { authorization, escrow } = authorized;
    let call = AwardCall {
        quote_request_id: batch.id().clone(),
        quote_id: request.quote_id.clone(),
        request_id: request.request_id.clone(),
        originator: originator.clone(),
        authorization,
        escrow,
        counterparty,
        identities: proven.identities(),
        request: body.text.clone(),
        correlation: correlation.to_owned(),
    };
    let under_way = state.first_appends.begin((&award.payment_id).into());
    award.append(journal, call, (promised, under_way), Arc::clone(permit), now).await
}

/// Who awards. Of a batch that a proven DID opened nobody else may take a quote: it can be taken once, so another who pays
/// for it would take it away, and would pay by the credentials that the DID presented. A batch that a source account
/// opened without a proof belongs to that account, whose signature every award has; so it may name who asks for it.
///
/// # Errors
/// 401 `INVALID_PROOF`.
pub(crate) fn awarder(proven: &Proven, batch: &QuoteRequest) -> Result<String, Error> {
    let opened = &batch.opened;
    let originator = envelope::originator(proven, &opened.terms);
    if opened.originator == originator || opened.originator == opened.terms.source.account().originator() {
        return Ok(originator);
    }
    let rule = "proof: the quote-request was opened by another originator, which has to prove that it awards the quote";
    Err(Error::new(Code::INVALID_PROOF, rule))
}

/// The batch as the journal has it: what is decided on must not lag.
pub(crate) async fn load(state: &App, id: &QuoteRequestId) -> Result<QuoteRequest, Error> {
    Ok(load_from(state, id).await?.0)
}

/// The same, with where it begins.
pub(crate) async fn load_from(state: &App, id: &QuoteRequestId) -> Result<(QuoteRequest, Position), Error> {
    let commits = state.services.journal.load(&id.into()).await.map_err(|error| read_failed(&error))?;
    let batch = quote_request::fold(commits.iter().flat_map(Recorded::quote_request_events)).map_err(|error| {
        tracing::error!(quote_request_id = %id, %error, "the batch cannot be read");
        Code::INTERNAL_ERROR
    })?;
    let begun = commits.first().map(|first| first.position);
    batch.zip(begun).ok_or_else(|| Code::QUOTE_REQUEST_NOT_FOUND.into())
}

/// The quote of the batch that bears this id.
pub(crate) fn quote<'a>(batch: &'a QuoteRequest, quote_id: &str) -> Result<&'a CollectedDocument, Error> {
    if batch.collected.is_none() {
        return Err(Code::QUOTE_REQUEST_COLLECTING.into());
    }
    batch.quote(quote_id).ok_or_else(|| Code::QUOTE_NOT_FOUND.into())
}

/// The award of a quote that there is.
pub(crate) struct Award<'a> {
    pub(crate) batch: &'a QuoteRequest,
    /// Where the batch begins in the journal.
    pub(crate) begun: Position,
    pub(crate) quote: &'a CollectedDocument,
    pub(crate) payment_id: PaymentId,
}

impl Award<'_> {
    /// What the payer's signature has to hold for: corridor and deadlines of the batch, and the quote.
    pub(crate) fn authorization<'a>(
        &'a self,
        state: &'a App,
        message_scheme: MessageScheme,
        signed_messages: &'a [SignedMessage],
    ) -> Result<AuthorizationRequest<'a>, Error> {
        let opened = &self.batch.opened;
        // The batch outlives configurations: its chain may be served no longer.
        let corridor = state.corridors.get(opened.terms.source.asset().chain()).ok_or(Code::UNSUPPORTED_ASSET)?;
        Ok(AuthorizationRequest {
            payment_id: &self.payment_id,
            terms: &opened.terms,
            terms_hash: opened.terms_hash,
            quote_deadline: opened.quote_deadline,
            fulfillment_deadline: opened.fulfillment_deadline,
            refund_delay_seconds: opened.escrow.refund_after.saturating_sub(opened.escrow.fulfillment_deadline),
            escrow_contract: &opened.escrow.contract,
            permit2: corridor.permit2.as_ref(),
            reserver: &opened.escrow.reserver,
            releaser: &opened.escrow.releaser,
            quote_hash: self.quote.quote_hash,
            message_scheme,
            signed_messages,
            caller: None,
        })
    }

    /// Judges a payment that was accepted before under the same id: it is the answer when it is the award of this quote.
    fn replay(&self, commits: &[Recorded]) -> Result<PaymentView, Error> {
        let view = PaymentView::fold(commits).ok_or_else(|| self.unreadable())?;
        let opened = &self.batch.opened;
        if view.source.account() != opened.terms.source.account() {
            return Err(Code::REQUEST_ID_TAKEN.into());
        }
        let awarded = commits.first().into_iter().flat_map(Recorded::payment_events).find_map(|event| match event {
            PaymentEvent::Submitted(submitted) => submitted.collected_quote.as_ref(),
            _ => None,
        });
        let is_this = awarded.is_some_and(|awarded| {
            awarded.quote_request_id == *self.batch.id() && awarded.quote_id == self.quote.quote_id
        });
        if view.terms_hash != opened.terms_hash || !is_this {
            return Err(not_this_award(&self.payment_id));
        }
        Ok(view)
    }

    /// Whether the batch names this payment already. Then its id is spent, also where the payment has not begun: the same
    /// call, repeated, begins it.
    fn is_fenced(&self) -> bool {
        self.batch.awarded.as_ref().is_some_and(|awarded| awarded.payment_id == self.payment_id)
    }

    /// Whether the quote may still be awarded. An award that the batch records already was in time.
    pub(crate) fn check(&self, now: Timestamp) -> Result<(), Error> {
        let quote_id = &self.quote.quote_id;
        let may = quote_request::may_award(self.batch, quote_id, &self.payment_id, now);
        may.map(drop).map_err(|refusal| self.refused(refusal))
    }

    /// Whether the windows of the batch, and those that are signed for it, keep the limits that hold now.
    pub(crate) fn check_horizons(&self, plan: &EscrowPlan, state: &App) -> Result<(), Error> {
        let opened = &self.batch.opened;
        horizons::check_settlement(opened.quote_deadline, opened.fulfillment_deadline, state.deadlines)?;
        Ok(horizons::check_plan(plan, opened.quote_deadline, state.deadlines)?)
    }

    /// Whether the chains that the payment would go through are ready: those of its source and of what the quote delivers.
    fn check_chains(&self, state: &App) -> Result<(), Error> {
        let readiness = &state.services.chains;
        ready_chains::check(readiness, &self.batch.opened.terms.source)?;
        match SignedQuote::parse_stored(&self.quote.document) {
            Ok(signed) => ready_chains::check(readiness, &signed.quote().destination),
            Err(_) => Ok(()),
        }
    }

    /// Whether another quote of the batch may have been awarded after a copy of the journal was made.
    pub(crate) fn check_batch(&self, state: &App) -> Result<(), Error> {
        match &state.services.restored {
            Some(restored) if !self.is_fenced() => restored.check_batch(self.begun),
            _ => Ok(()),
        }
    }

    /// Whether the award, or its payment, may be one that a copy of the journal lacks.
    async fn check_restored(&self, state: &App, escrow: &EscrowPlan) -> Result<(), Error> {
        let Some(restored) = &state.services.restored else { return Ok(()) };
        self.check_batch(state)?;
        restored.check_payment(&self.payment_id, escrow, self.batch.opened.terms.source.account()).await
    }

    /// What is drawn of what is permitted, where that is not drawn whole: the price.
    pub(crate) fn drawn(&self, permitted: Amount) -> Amount {
        self.price().map_or(permitted, |price| permitted.min(price))
    }

    /// What the quote asks for.
    pub(crate) fn price(&self) -> Option<Amount> {
        SignedQuote::parse_stored(&self.quote.document).ok().map(|signed| signed.quote().source_amount)
    }

    /// Appends the payment's first commit, and holds `permit` until that has ended.
    async fn append(
        &self,
        journal: Arc<dyn StreamStore>,
        call: AwardCall,
        (promised, under_way): (Promised, UnderWay),
        permit: Arc<Permit>,
        now: Timestamp,
    ) -> Result<(PaymentView, bool), Error> {
        // What the payer has signed away stays so, whatever becomes of this call, unless it is certain that nothing is stored.
        let kept = promised.keep();
        let awarding = async move {
            let awarded = quote_request::award(journal.as_ref(), &call, now).await;
            if !matches!(&awarded, Ok(AwardOutcome::Created(_)) | Err(AwardError::Unknown(_))) {
                kept.take_back();
            }
            under_way.end(!matches!(&awarded, Err(AwardError::Unknown(_))));
            awarded
        };
        let awarded = permit.finish(awarding).await;
        let no_outcome = || Err(AwardError::Unknown("the award ended without an outcome".to_owned()));
        match awarded.unwrap_or_else(no_outcome).map_err(|error| self.failed(error))? {
            AwardOutcome::Created(first) => {
                let view = PaymentView::begin(&first).ok_or_else(|| self.unreadable())?;
                Ok((view, false))
            }
            AwardOutcome::Existing(commits) => Ok((self.replay(&commits)?, true)),
            AwardOutcome::Refused(refusal) => Err(self.refused(refusal)),
        }
    }

    /// Whether a payment may be made of it now (design: order of checks). What asks a chain comes behind what does not, and the
    /// counterparties last, as the policies are nobody else's business.
    async fn admit(
        &self,
        state: &App,
        originator: &str,
        proven: &Proven,
        signed: &AuthorizationRequest<'_>,
        authorized: &Authorized,
        now: Timestamp,
    ) -> Result<(Option<CounterpartyDecision>, Promised), Error> {
        self.check(now)?;
        let source = &self.batch.opened.terms.source;
        state.corridors.check_scheme(source.asset().chain(), signed.message_scheme)?;
        envelope::credentials_count(proven)?;
        self.check_horizons(&authorized.escrow, state)?;
        self.check_chains(state)?;
        self.check_restored(state, &authorized.escrow).await?;
        let authorizer = &state.services.authorizer;
        let is_contract = authorizer.payer_is_contract(signed, authorized).await?;
        authorizer.confirm(signed, authorized).await?;
        let draw = Draw::of(&authorized.authorization);
        let permitted = authorized.authorization.permitted();
        let amount = if authorized.authorization.is_drawn_whole() { permitted } else { self.drawn(permitted) };
        let spend = Spend { source, amount, draw, escrow: &authorized.escrow };
        let payments = state.services.payments.as_ref();
        let promised = state.funds.promised(&spend, &self.payment_id, payments, now).await?;
        let proposal = self.proposal(originator, proven, is_contract);
        Ok((state.services.admission.admit(&proposal, now)?, promised))
    }

    fn proposal<'a>(&'a self, originator: &'a str, proven: &'a Proven, payer_is_contract: bool) -> Proposal<'a> {
        Proposal {
            payer_is_contract: Some(payer_is_contract),
            kind: RequestKind::Award,
            id: self.payment_id.as_str(),
            originator,
            proven,
            payer: self.batch.opened.terms.source.account(),
            terms: &self.batch.opened.terms,
            required_policies: &self.batch.opened.required_policies,
        }
    }

    fn refused(&self, refusal: AwardRefusal) -> Error {
        match refusal {
            AwardRefusal::StillCollecting => Code::QUOTE_REQUEST_COLLECTING.into(),
            AwardRefusal::UnknownQuote => Code::QUOTE_NOT_FOUND.into(),
            AwardRefusal::AlreadyAwarded { payment_id } => {
                Error::from(Code::QUOTE_REQUEST_ALREADY_AWARDED).about(&payment_id)
            }
            AwardRefusal::Expired => Code::QUOTE_EXPIRED.into(),
        }
    }

    fn failed(&self, error: AwardError) -> Error {
        let payment_id = &self.payment_id;
        match error {
            AwardError::NoSuchBatch => Code::QUOTE_REQUEST_NOT_FOUND.into(),
            AwardError::Unfit(rule) => Error::new(Code::INVALID_SENDER_AUTH, format!("sender_auth: {rule}")),
            AwardError::Unavailable(reason) => {
                tracing::warn!(%payment_id, reason, "award was not accepted");
                Code::SERVICE_UNAVAILABLE.into()
            }
            AwardError::Unknown(reason) => {
                tracing::warn!(%payment_id, reason, "outcome of the award is unknown");
                Error::from(Code::OUTCOME_UNKNOWN).about(payment_id)
            }
            AwardError::Broken(reason) => {
                tracing::error!(%payment_id, reason, "the award cannot be stored");
                Code::INTERNAL_ERROR.into()
            }
        }
    }

    fn unreadable(&self) -> Error {
        tracing::error!(payment_id = %self.payment_id, "the payment's first commit is not a submission");
        Error::from(Code::OUTCOME_UNKNOWN).about(&self.payment_id)
    }
}
