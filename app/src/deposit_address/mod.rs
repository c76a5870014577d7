//! Asking for a deposit address (ADR 153): a payment whose payer signs nothing, and sends the money to an address that commits to it.
//!
//! The address is of a quote-request, whose corridor, deadline and verifier it has; one address each. The quotes that were collected are
//! for information, for they lapse within seconds: when the money is there, settlers are asked anew, up to the amount.
//!
//! Nobody signs for it, so what comes of it costs next to nothing before there is money: three commits in all, and a place among the addresses
//! that are waited at, of which there are so many ([`open_addresses`]).

pub(crate) mod open_addresses;

use std::sync::Arc;

use chrono::TimeDelta;
use serde_json::{Map, Value};

use events::{
    Amount, CommitId, Hash32, PaymentEvent, PaymentId, QuoteRequestId,
    event::{Authorization, CounterpartyDecision, DepositAddress, EscrowPlan, Submitted},
    time::{Timestamp, unix_seconds},
};
use identity::Proven;
use journal::{Commit, Position};
use net::callers::{Caller, Kind, price};
use projections::PaymentView;
use sagas::quote_request::QuoteRequest;

use self::open_addresses::Wanted;
use crate::{
    App,
    admission::{
        policy::{Proposal, RequestKind},
        ready_chains,
        write_permits::Permit,
    },
    authorization::AddressRequest,
    award::{awarder, load_from},
    error::{Code, Error},
    idempotency::{KeyError, append_first},
    request::{
        body::JsonBody,
        envelope,
        fields::{Faults, Object, date_time},
        horizons,
    },
    views::payments::{from_journal, read_failed},
};

/// What is left for quotes and the deposit once the money may have come in the last second, in seconds.
const DEPOSIT_SECONDS: i64 = 60;
/// What is left for the delivery after that at least, in seconds.
const DELIVERY_SECONDS: i64 = 60;
/// How long the money is waited for at least and at most, in seconds. So long it may lie at the address, too, when nobody delivers.
const PAY_SECONDS_MIN: i64 = 10;
const PAY_SECONDS_MAX: i64 = 2 * 60 * 60;

/// What is asked for besides the quote-request.
struct AddressOptions {
    /// The amount that is to be sent, smallest unit of the source asset.
    amount: Option<Amount>,
    /// Up to when.
    pay_by: Option<Timestamp>,
}

impl AddressOptions {
    fn read(members: &Map<String, Value>) -> Result<Self, Error> {
        let (body, mut faults) = (Object::root(members), Faults::default());
        let amount: Option<&str> = body.optional("amount", &mut faults);
        let amount = amount
            .and_then(|text| text.parse().map_err(|rule: events::amount::Error| faults.invalid("amount", rule)).ok());
        let pay_by: Option<&str> = body.optional("pay_by", &mut faults);
        let pay_by = pay_by.and_then(|text| match date_time(text) {
            Ok(at) => Some(at),
            Err(rule) => {
                faults.add(Code::INVALID_DEADLINE, "pay_by", rule);
                None
            }
        });
        envelope::check_form(&body, &mut faults);
        faults.or(Some(Self { amount, pay_by }))
    }
}

/// The payment with its address, and whether it was there before.
///
/// # Errors
/// What it is refused with; see [`Code`].
pub async fn accept(
    state: &App,
    id: QuoteRequestId,
    correlation: &str,
    caller: &Caller,
    secret: Option<Hash32>,
    body: JsonBody,
    permit: Permit,
) -> Result<(PaymentView, bool), Error> {
    let permit = Arc::new(permit);
    let options = AddressOptions::read(&body.members)?;
    let (batch, begun) = load_from(state, &id).await?;
    let proven = state.prove(&body).await?;
    let originator = awarder(&proven, &batch)?;
    // Settlers know the batch's id, and nobody signs for an address.
    if batch.opened.caller_secret_hash.is_some() && batch.opened.caller_secret_hash != secret {
        let rule =
            "Caller-Secret: the quote-request was opened with one, which has to come with the question for its address";
        return Err(Error::new(Code::INVALID_PROOF, rule));
    }
    let asked = Asked::of(&batch, &proven, originator, &options)?;
    trace::join_current(asked.payment_id.as_str());
    let journal = state.services.journal.as_ref();
    if let Some(view) = from_journal(journal, &asked.payment_id).await.map_err(|error| read_failed(&error))? {
        return Ok((asked.replay(view)?, true));
    }
    let now = state.services.clock.now();
    let (address, plan, counterparty) = asked.admit(state, caller, begun, now).await?;
    let submitted = asked.submitted(address, plan, counterparty, body.text, now);
    asked.append(state, submitted, correlation, permit).await
}

/// What is asked for, of a quote-request that there is.
struct Asked<'a> {
    payment_id: PaymentId,
    originator: String,
    batch: &'a QuoteRequest,
    proven: &'a Proven,
    amount: Amount,
    pay_by: Option<Timestamp>,
}

impl<'a> Asked<'a> {
    fn of(
        batch: &'a QuoteRequest,
        proven: &'a Proven,
        originator: String,
        options: &AddressOptions,
    ) -> Result<Self, Error> {
        let (opened, invalid) = (&batch.opened, |rule: &str| Error::new(Code::INVALID_REQUEST, rule));
        if opened.selector.is_some() {
            return Err(invalid("quote_selector: a payment by deposit address has its quote chosen by the gateway"));
        }
        let amount = match (opened.terms.max_source_amount, options.amount) {
            (Some(cap), Some(amount)) if amount != cap => {
                return Err(invalid("amount: must be the max_source_amount of the quote-request, or left out"));
            }
            (Some(cap), _) => cap,
            (None, Some(amount)) => amount,
            (None, None) => {
                return Err(invalid("amount: must be given where the quote-request has no max_source_amount"));
            }
        };
        // In the key space of the caller's payments, under a key that is the quote-request's own.
        let payment_id = PaymentId::derive(&originator, batch.id().as_str());
        Ok(Self { payment_id, originator, batch, proven, amount, pay_by: options.pay_by })
    }

    /// Judges an address that was given before for the same quote-request.
    fn replay(&self, view: PaymentView) -> Result<PaymentView, Error> {
        let is_this = view.deposit_address.as_ref().is_some_and(|address| address.given.amount == self.amount);
        if view.terms_hash != self.batch.opened.terms_hash || !is_this {
            let message =
                "amount: the quote-request has a deposit address for another amount; open another quote-request";
            return Err(Error::new(Code::IDEMPOTENCY_TERMS_MISMATCH, message).about(&self.payment_id));
        }
        Ok(view)
    }

    /// Up to when the money is waited for: as the caller says, or so that half of the time up to the deadline is left for quotes,
    /// deposit and delivery, but ten minutes at most.
    fn pay_by(&self, now: Timestamp) -> Result<Timestamp, Error> {
        let invalid = |rule: String| Error::new(Code::INVALID_DEADLINE, rule);
        let deadline = self.batch.opened.fulfillment_deadline;
        let in_time = deadline - TimeDelta::seconds(DEPOSIT_SECONDS + DELIVERY_SECONDS);
        let latest = in_time.min(now + TimeDelta::seconds(PAY_SECONDS_MAX));
        let earliest = now + TimeDelta::seconds(PAY_SECONDS_MIN);
        if latest < earliest {
            return Err(invalid(format!(
                "fulfillment_deadline: is too near for a deposit address; open a quote-request with {} seconds or more",
                PAY_SECONDS_MIN + DEPOSIT_SECONDS + DELIVERY_SECONDS
            )));
        }
        match self.pay_by {
            Some(pay_by) if pay_by < earliest => {
                Err(invalid(format!("pay_by: must be at least {PAY_SECONDS_MIN} seconds away")))
            }
            Some(pay_by) if pay_by > in_time => Err(invalid(format!(
                "pay_by: must be at least {} seconds before fulfillment_deadline",
                DEPOSIT_SECONDS + DELIVERY_SECONDS
            ))),
            Some(pay_by) if pay_by > latest => {
                Err(invalid(format!("pay_by: must be at most {PAY_SECONDS_MAX} seconds away")))
            }
            Some(pay_by) => Ok(pay_by),
            None => {
                let left = (deadline - now) / 2;
                Ok((deadline - left.min(TimeDelta::minutes(10))).clamp(earliest, latest))
            }
        }
    }

    /// The windows that the address commits to.
    fn plan(&self, pay_by: Timestamp) -> EscrowPlan {
        let escrow = &self.batch.opened.escrow;
        let reserve = unix_seconds(pay_by).saturating_add(DEPOSIT_SECONDS.unsigned_abs());
        EscrowPlan { reserve_deadline: reserve.min(escrow.fulfillment_deadline), ..escrow.clone() }
    }

    /// Whether it may be given now. What asks a chain comes behind what does not, and the counterparties last.
    async fn admit(
        &self,
        state: &App,
        caller: &Caller,
        begun: Position,
        now: Timestamp,
    ) -> Result<(DepositAddress, EscrowPlan, Option<CounterpartyDecision>), Error> {
        let opened = &self.batch.opened;
        state.corridors.get(opened.terms.source.asset().chain()).ok_or(Code::UNSUPPORTED_ASSET)?;
        if let Some(contract) = state.corridors.contract_at(&opened.terms.source) {
            let rule = format!("source.account: is {contract}, from which no money comes back");
            return Err(Error::new(Code::INVALID_REQUEST, rule));
        }
        envelope::credentials_count(self.proven)?;
        let pay_by = self.pay_by(now)?;
        let plan = self.plan(pay_by);
        horizons::check_plan(&plan, pay_by, state.deadlines)?;
        ready_chains::check_terms(&state.services.chains, &opened.terms)?;
        if let Some(restored) = &state.services.restored {
            restored.check_batch(begun)?;
            restored.check_payment(&self.payment_id, &plan, opened.terms.source.account()).await?;
        }
        caller.spend(Kind::Unsigned, price::QUOTE_REQUEST)?;
        if self.proven.originator().is_some() {
            caller.accept(&self.originator, 0)?;
        }
        let wanted = Wanted {
            payment_id: &self.payment_id,
            pay_by,
            caller,
            originator: self.proven.originator().map(|_| self.originator.as_str()),
        };
        state.open_addresses.admit(&wanted, state.services.payments.as_ref(), now).await?;
        let asked = AddressRequest {
            payment_id: &self.payment_id,
            terms: &opened.terms,
            escrow: &plan,
            amount: self.amount,
            pay_by,
        };
        let judged = async {
            let address = state.services.authorizer.deposit_address(&asked).await;
            let address = address.map_err(|error| {
                let error = crate::prepare::unsignable(error);
                ready_chains::explained(&state.services.chains, &opened.terms.source, error)
            })?;
            Ok((address, state.services.admission.admit(&self.proposal(), now)?))
        };
        match judged.await {
            Ok((address, counterparty)) => Ok((address, plan, counterparty)),
            Err(refusal) => {
                state.open_addresses.give_back(&self.payment_id);
                Err(refusal)
            }
        }
    }

    fn proposal(&self) -> Proposal<'_> {
        let opened = &self.batch.opened;
        Proposal {
            payer_is_contract: None,
            kind: RequestKind::Payment,
            id: self.payment_id.as_str(),
            originator: &self.originator,
            proven: self.proven,
            payer: opened.terms.source.account(),
            terms: &opened.terms,
            required_policies: &opened.required_policies,
        }
    }

    fn submitted(
        &self,
        address: DepositAddress,
        escrow: EscrowPlan,
        counterparty: Option<CounterpartyDecision>,
        request: String,
        now: Timestamp,
    ) -> Submitted {
        let opened = &self.batch.opened;
        Submitted {
            payment_id: self.payment_id.clone(),
            request_id: self.batch.id().to_string(),
            originator: self.originator.clone(),
            terms: opened.terms.clone(),
            terms_hash: opened.terms_hash,
            // Quotes are collected once the money is there, and so may be the first second after that.
            quote_deadline: address.pay_by,
            fulfillment_deadline: opened.fulfillment_deadline,
            authorization: Authorization::DepositAddress(address),
            escrow,
            fulfillment_proxies: opened.fulfillment_proxies.clone(),
            verifier: opened.verifier.clone(),
            whitelist: opened.whitelist.clone(),
            blacklist: opened.blacklist.clone(),
            required_policies: opened.required_policies.clone(),
            collected_quote: None,
            selector: None,
            counterparty,
            identities: self.proven.identities(),
            submitted_at: now,
            request,
        }
    }

    async fn append(
        &self,
        state: &App,
        submitted: Submitted,
        correlation: &str,
        permit: Arc<Permit>,
    ) -> Result<(PaymentView, bool), Error> {
        let commit = Commit {
            stream_id: self.payment_id.clone().into(),
            expected: Position::START,
            commit_id: CommitId::random(),
            events: vec![PaymentEvent::Submitted(Box::new(submitted)).into()],
            correlation: correlation.to_owned(),
            causation: correlation.to_owned(),
        };
        let under_way = state.first_appends.begin(commit.stream_id.clone());
        let (addresses, payment_id) = (Arc::clone(&state.open_addresses), self.payment_id.clone());
        let ended = move |keyed: &Result<_, KeyError>| {
            under_way.end(!matches!(keyed, Err(KeyError::OutcomeUnknown)));
            if matches!(keyed, Err(KeyError::NotStored(_))) {
                addresses.give_back(&payment_id);
            }
        };
        let unknown = || Error::from(Code::OUTCOME_UNKNOWN).about(&self.payment_id);
        let keyed = append_first(Arc::clone(&state.services.journal), commit, permit, ended).await;
        let keyed = keyed.map_err(|error| match error {
            KeyError::NotStored(answer) => answer,
            KeyError::OutcomeUnknown => unknown(),
        })?;
        let view = PaymentView::fold(&keyed.commits).ok_or_else(|| {
            tracing::error!(payment_id = %self.payment_id, "the journal recorded another first commit");
            unknown()
        })?;
        if keyed.mine { Ok((view, false)) } else { Ok((self.replay(view)?, true)) }
    }
}
