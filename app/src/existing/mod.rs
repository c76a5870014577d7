//! Existing payments: what a refused submission is answered with when the payment that it names was accepted before.
//!
//! Body, proof, signature and configuration are judged before a payment is looked up, because what is new has to pass them
//! all. A retry need not: contracts, assets, verifiers and clocks change, and a proof expires. So every refusal asks the
//! journal whether the payment exists before it is answered (spec 2.10, idempotency rules 3, 5 and 7). What is unchanged and
//! authorised is a replay, what differs is 409, and all else is the refusal with the `payment_id` that stands. Only a journal
//! that has nothing makes an id free (ADR 105).
//!
//! Whoever sends bad bodies pays for the look-up out of the budget for what nobody signed; above it, and while the journal
//! cannot be read, nothing is said of the id.

pub(crate) mod first_appends;
pub(crate) mod stated;

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value};
use tokio::time::timeout;

use events::{
    Hash32, PaymentEvent, PaymentId, QuoteRequestId,
    event::{CollectedQuote, Submitted},
    time::Timestamp,
};
use journal::Recorded;
use net::callers::{Caller, Kind, price};
use projections::PaymentView;

use self::stated::Stated;
use crate::{
    App,
    authorization::{AuthorizationRequest, AuthorizeError, SignedMessage},
    error::{Code, Error},
    request::{
        body::JsonBody,
        fields::{Faults, Object, date_time},
        sender_auth::SenderAuth,
    },
    views::payments::read_failed,
};

/// The members that may differ on a retry (idempotency rule 6).
pub(crate) const EXEMPT: [&str; 3] = ["quote_deadline", "fulfillment_deadline", "sender_auth"];
/// How long a refusal waits for the journal.
pub(crate) const READ_MAX: Duration = Duration::from_secs(2);

/// A payment that was accepted before, with what it was accepted with.
pub(crate) struct Existing {
    pub(crate) view: PaymentView,
    pub(crate) submitted: Submitted,
    /// The quote that the payer signed for; zero in the one-call flow.
    quote_hash: Hash32,
}

/// A refused request for a payment.
pub(crate) struct Refused<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) body: &'a JsonBody,
    /// What the body states.
    pub(crate) stated: Option<Stated>,
    /// The quote of an award.
    pub(crate) award: Option<(&'a QuoteRequestId, &'a str)>,
    /// The payment that the batch of an award names already: it may not have begun, and its id is spent.
    pub(crate) fenced: Option<&'a PaymentId>,
}

/// What is known of the payment that a refused request names.
enum Found {
    /// Nothing: the caller's budget is used up, the journal cannot be read, or what this gateway appended may still land.
    Unknown,
    /// The journal has none.
    Nothing,
    /// It exists, and the journal cannot be read for now.
    Seen(Box<PaymentView>),
    Payment(Box<Existing>),
}

impl<'a> Refused<'a> {
    /// A refused submission.
    pub(crate) fn submission(body: &'a JsonBody, caller: &'a Caller) -> Self {
        Self { caller, body, stated: Stated::of_order(&body.members), award: None, fenced: None }
    }

    /// The payment that the request is a replay of, whatever `refusal` says.
    ///
    /// # Errors
    /// What the request is answered with instead: 409 where it differs from the payment that exists, 401 where it is not
    /// authorised, else `refusal`, with what the journal says of the id.
    pub(crate) async fn answer(self, state: &App, refusal: Error) -> Result<Box<Existing>, Error> {
        if !refusal.is_undecided() {
            return Err(refusal);
        }
        let Some(stated) = &self.stated else { return Err(refusal) };
        let payment_id = stated.payment_id();
        match look_up(state, self.caller, &payment_id).await {
            Found::Unknown | Found::Nothing if self.fenced == Some(&payment_id) => {
                Err(refusal.about(&payment_id).exists())
            }
            Found::Unknown => Err(refusal),
            Found::Nothing => Err(refusal.nothing_exists()),
            Found::Seen(view) => {
                self.compare(stated, &view)?;
                Err(refusal.about(&payment_id).exists())
            }
            Found::Payment(existing) => {
                self.compare(stated, &existing.view)?;
                if let Err(other) = self.compare_quote(&existing.submitted) {
                    // A quote that there is not is another fault than another quote.
                    let is_missing = refusal.status() == StatusCode::NOT_FOUND;
                    return Err(if is_missing { refusal.about(&payment_id).exists() } else { other });
                }
                self.authorised(state, &existing, refusal.about(&payment_id).exists()).await?;
                Ok(existing)
            }
        }
    }

    /// Whether the economics are those of the payment (idempotency rules 5 and 7), as far as the body's can be read.
    ///
    /// # Errors
    /// 409.
    fn compare(&self, stated: &Stated, view: &PaymentView) -> Result<(), Error> {
        if stated.account.as_ref().is_some_and(|account| account != view.source.account()) {
            return Err(Code::REQUEST_ID_TAKEN.into());
        }
        match stated.terms.as_ref().is_some_and(|terms| terms.hash() != view.terms_hash) {
            true => Err(Error::from(Code::IDEMPOTENCY_TERMS_MISMATCH).about(&view.payment_id)),
            false => Ok(()),
        }
    }

    /// Whether the payment is the award of the quote that is named, where one is.
    ///
    /// # Errors
    /// 409.
    fn compare_quote(&self, submitted: &Submitted) -> Result<(), Error> {
        let Some((batch, quote_id)) = self.award else { return Ok(()) };
        let is_this = |awarded: &CollectedQuote| awarded.quote_request_id == *batch && awarded.quote_id == quote_id;
        match submitted.collected_quote.as_ref().is_some_and(is_this) {
            true => Ok(()),
            false => Err(not_this_award(&submitted.payment_id)),
        }
    }

    /// Whether the request is authorised to be answered with the payment: by what the payer signed for it, which was checked
    /// when it was accepted, or by another signature for what it was accepted with.
    ///
    /// # Errors
    /// `refusal` where the request has faults of its own, and 401.
    async fn authorised(&self, state: &App, existing: &Existing, refusal: Error) -> Result<(), Error> {
        let (members, submitted) = (&self.body.members, &existing.submitted);
        let readable = self.stated.as_ref().is_some_and(|stated| stated.terms.is_some());
        let stored: Option<Map<String, Value>> = serde_json::from_str(&submitted.request).ok();
        // An award's deadlines are the batch's, so they may not differ.
        let exempt: &[&str] = if self.award.is_some() { &["sender_auth"] } else { &EXEMPT };
        let unchanged = stored.as_ref().is_some_and(|stored| is_unchanged(members, stored, exempt));
        if !readable || refusal.is_of_form() && !unchanged {
            return Err(refusal);
        }
        let mut faults = Faults::default();
        let sender_auth = SenderAuth::read(&Object::root(members), &mut faults);
        let Some(sender_auth) = sender_auth.filter(|_| faults.answer().is_none()) else { return Err(refusal) };
        let original = stored.and_then(|stored| SenderAuth::read(&Object::root(&stored), &mut Faults::default()));
        if original.is_some_and(|original| is_same(&original, &sender_auth)) {
            return Ok(());
        }
        let deadlines = match self.award {
            Some(_) => Some((submitted.quote_deadline, submitted.fulfillment_deadline)),
            None => deadline(members, "quote_deadline").zip(deadline(members, "fulfillment_deadline")),
        };
        let Some(deadlines) = deadlines else { return Err(refusal) };
        let signed = existing.authorization(state, &sender_auth, deadlines, self.caller);
        match state.services.authorizer.authorize(&signed).await {
            Ok(_) => Ok(()),
            Err(AuthorizeError::Refused(_)) if refusal.status() == StatusCode::UNAUTHORIZED => Err(refusal),
            Err(AuthorizeError::Refused(reason)) => {
                Err(Error::new(Code::INVALID_SENDER_AUTH, reason).about(&submitted.payment_id).exists())
            }
            Err(_) => Err(refusal),
        }
    }
}

impl Existing {
    /// The payment of these commits; `None` when they do not begin with a submission.
    fn of(commits: &[Recorded]) -> Option<Self> {
        let (mut submitted, mut quote_hash) = (None, Hash32::ZERO);
        for event in commits.first()?.payment_events() {
            match event {
                PaymentEvent::Submitted(event) => submitted = Some((**event).clone()),
                PaymentEvent::QuoteAwarded(awarded) => quote_hash = awarded.quote_hash,
                _ => {}
            }
        }
        Some(Self { view: PaymentView::fold(commits)?, submitted: submitted?, quote_hash })
    }

    /// A retry's signature, to be checked against what the payment was accepted with.
    fn authorization<'a>(
        &'a self,
        state: &'a App,
        sender_auth: &'a SenderAuth,
        (quote_deadline, fulfillment_deadline): (Timestamp, Timestamp),
        caller: &'a Caller,
    ) -> AuthorizationRequest<'a> {
        let submitted = &self.submitted;
        let (terms, escrow) = (&submitted.terms, &submitted.escrow);
        let chains = terms.destination().iter().chain([&terms.source]).map(|owned| owned.asset().chain());
        // The least that was asked for then was not more than what was signed for.
        let signed = escrow.refund_after.saturating_sub(escrow.fulfillment_deadline);
        AuthorizationRequest {
            payment_id: &submitted.payment_id,
            terms,
            terms_hash: submitted.terms_hash,
            quote_deadline,
            fulfillment_deadline,
            refund_delay_seconds: state.corridors.refund_delay_seconds(chains).min(signed),
            escrow_contract: &escrow.contract,
            permit2: state.corridors.get(terms.source.asset().chain()).and_then(|corridor| corridor.permit2.as_ref()),
            reserver: &escrow.reserver,
            releaser: &escrow.releaser,
            quote_hash: self.quote_hash,
            message_scheme: sender_auth.message_scheme,
            signed_messages: &sender_auth.signed_messages,
            caller: Some(caller),
        }
    }
}

/// The answer to an award whose `request_id` belongs to a payment that is not this award.
pub(crate) fn not_this_award(payment_id: &PaymentId) -> Error {
    let message = "The request_id was used for a payment that is not the award of this quote. Use a new request_id.";
    Error::new(Code::IDEMPOTENCY_TERMS_MISMATCH, message).about(payment_id)
}

/// Looks a payment up: in the read model, which costs nothing, and in the journal at the caller's expense.
async fn look_up(state: &App, caller: &Caller, payment_id: &PaymentId) -> Found {
    let seen = state.services.payments.view(payment_id).await.ok().flatten();
    let unknown = |seen: Option<PaymentView>| seen.map_or(Found::Unknown, |view| Found::Seen(Box::new(view)));
    if !may_look_up(caller) {
        return unknown(seen);
    }
    let look_up = state.first_appends.look_up(payment_id);
    match timeout(READ_MAX, state.services.journal.load(&payment_id.into())).await {
        Ok(Ok(commits)) if commits.is_empty() && seen.is_none() && !look_up.may_land() => Found::Nothing,
        Ok(Ok(commits)) if commits.is_empty() => unknown(seen),
        Ok(Ok(commits)) => Existing::of(&commits).map_or(Found::Unknown, |existing| Found::Payment(Box::new(existing))),
        Ok(Err(error)) => {
            tracing::debug!(%payment_id, %error, "a refusal says nothing of its id");
            unknown(seen)
        }
        Err(_) => unknown(seen),
    }
}

/// What a payment that exists was accepted with.
///
/// # Errors
/// 503 when that cannot be read now, 500 when what is stored cannot be read.
pub(crate) async fn accepted_with(state: &App, payment_id: &PaymentId) -> Result<Submitted, Error> {
    let commits = state.services.journal.load(&payment_id.into()).await.map_err(|error| read_failed(&error))?;
    Existing::of(&commits).map(|existing| existing.submitted).ok_or_else(|| Code::INTERNAL_ERROR.into())
}

/// Takes what a look-up costs; `false` where the caller's budget has not as much left.
pub(crate) fn may_look_up(caller: &Caller) -> bool {
    caller.spend(Kind::Unsigned, price::LOOK_UP).is_ok()
}

/// What a refused rehearsal of a signature is answered with: `refusal`, with what the journal says of the id.
pub(crate) async fn decided(state: &App, caller: &Caller, stated: Option<Stated>, refusal: Error) -> Error {
    let Some(stated) = stated.filter(|_| refusal.is_undecided()) else { return refusal };
    let payment_id = stated.payment_id();
    match look_up(state, caller, &payment_id).await {
        Found::Unknown => refusal,
        Found::Nothing => refusal.nothing_exists(),
        Found::Seen(_) | Found::Payment(_) => refusal.about(&payment_id).exists(),
    }
}

/// Whether a body says what the other one says, but for the members that are exempt.
pub(crate) fn is_unchanged(body: &Map<String, Value>, other: &Map<String, Value>, exempt: &[&str]) -> bool {
    let counts = |(name, _): &(&String, &Value)| !exempt.contains(&name.as_str());
    let same = |(name, value): (&String, &Value)| other.get(name) == Some(value);
    let is_readable = |name: &str| body.get(name) == other.get(name) || deadline(body, name).is_some();
    body.iter().filter(counts).all(same)
        && other.keys().filter(|name| !exempt.contains(&name.as_str())).all(|name| body.contains_key(name))
        && is_readable("quote_deadline")
        && is_readable("fulfillment_deadline")
}

fn deadline(body: &Map<String, Value>, name: &str) -> Option<Timestamp> {
    date_time(body.get(name)?.as_str()?).ok()
}

/// Whether both hold the same signatures over the same messages.
fn is_same(one: &SenderAuth, other: &SenderAuth) -> bool {
    let same = |(one, other): (&SignedMessage, &SignedMessage)| {
        one.message.eq_ignore_ascii_case(&other.message) && one.signature.eq_ignore_ascii_case(&other.signature)
    };
    one.message_scheme == other.message_scheme
        && one.signed_messages.len() == other.signed_messages.len()
        && one.signed_messages.iter().zip(&other.signed_messages).all(same)
}
