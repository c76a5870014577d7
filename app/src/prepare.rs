//! Preparing a payment: what exactly a payer has to sign (design: HTTP).
//!
//! The body is a PaymentRequest (spec 2.1) without `sender_auth`. Besides, `message_scheme` chooses among the schemes of
//! the source's chain, and `payload` holds the numbers that are the payer's to choose, as in a SignedMessage. With a
//! `signature` added to each message the answer is the `sender_auth` of a submission that differs in nothing else.
//!
//! Who is going to prove an originator names it as `originator`, a DID, or sends the proof: the payment id is made of it,
//! and so what the payer signs. A payer on Tron has to send the proof.
//!
//! Where the payer's allowance is too small, the token's `Permit` (ERC-2612) is the first message where the token takes one; else
//! `approval` is the call by which it gives it. Under `EVM_EIP3009` none is needed. Where it holds too little of a wrapped
//! coin and enough of the coin, `wrap` is what wraps the rest. What cannot be paid at all is refused as the submission would be.
//! On Tron the approval is one of the messages.
//!
//! For an award the body is `version`, `request_id`, `quote_request_id` and `quote_id`, with the same two members besides, and
//! what it echoes of the quote-request.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use escrow_abi::eip712::uint;
use events::{
    Account, Amount, Did, Family, OwnedAsset, PaymentId, QuoteRequestId, Terms,
    event::{EscrowPlan, VerifierRef},
    quote::SignedQuote,
    quote_request::CollectedDocument,
};
use net::callers::Caller;

use crate::{
    App,
    authorization::{
        AuthorizationRequest, AuthorizeError, MessageScheme, Prepared, PreparedDraw, UnsignedMessage, Wish,
    },
    award::{self, Award},
    error::{Code, Error},
    existing::{self, stated::Stated},
    funds::{Approval, FirstSteps, Spend, Wrap},
    request::{
        body::JsonBody,
        credential, echo, envelope,
        fields::{Faults, Object},
        horizons,
        order::{self, Order},
        sender_auth,
    },
    schema,
    views::verifier::VerifierBody,
};

/// What to sign. With a `signature` in each message it is the `sender_auth` of the submission.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PreparedPayment")]
pub struct PreparedBody {
    /// Tracking id of the payment.
    payment_id: PaymentId,
    /// The scheme the messages are for.
    #[schemars(schema_with = "MessageScheme::schema")]
    message_scheme: &'static str,
    /// Each is signed. On EVM chains an allowance for Permit2, where one is needed and the token takes it signed, comes first.
    #[schemars(length(min = 1))]
    signed_messages: Vec<MessageBody>,
    // Whose word releases the escrow: what is signed has the account alone, a verifier's or a set's.
    fulfillment_verifier: VerifierBody,
    // What the payer has to send to the chain first: where it holds the coin and too little of its wrapped form, and where its
    // allowance is too small.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrap: Option<Wrap>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<Approval>,
}

/// A SignedMessage without its signature.
// Spec 2.4.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "UnsignedMessage")]
pub(crate) struct MessageBody {
    /// What the signature is over, in hex.
    message: String,
    /// On EVM the EIP-712 typed data as JSON, ready for `eth_signTypedData_v4`. On Solana the ordered bytes in hex, whose SHA-256
    /// is `message`. On Tron the TIP-712 typed data as JSON, or under `TRON` the `raw_data` of a transaction in hex, whose SHA-256 is
    /// `message`; the messages are in the order in which their transactions are sent, after the auction.
    message_prehash: String,
    /// What else the submission has to repeat. On EVM chains, and under `TRON_PERMIT2_ESCROW`, the windows and, under
    /// `EVM_EIP3009`, `deposit`, whose hash is the nonce; of an allowance what it says: `spender`, `amount`, `deadline` and so on.
    /// On Solana its `allowance_delegate` is the address that the payer approves to draw on its tokens. Under `TRON` it says what the transaction does: `function`, `contract`, `amount` and so on; everything is in
    /// the transaction itself.
    #[schemars(schema_with = "schema::free_form")]
    payload: Map<String, Value>,
}

/// The options that both kinds of body have besides what is to be paid.
struct PreparationOptions {
    scheme: Option<MessageScheme>,
    payload: Option<Map<String, Value>>,
    originator: Option<Did>,
}

/// Makes the messages. Nothing is kept.
///
/// # Errors
/// What the submission would be refused with, but for its signature; see [`Code`].
pub async fn prepare(state: &App, caller: &Caller, body: JsonBody) -> Result<PreparedBody, Error> {
    let is_award = ["quote_request_id", "quote_id"].iter().any(|name| body.members.contains_key(*name));
    if is_award {
        return of_award(&body, state).await;
    }
    match of_order(&body, state).await {
        // Whom the submission is going to be from, it says itself.
        Err(refusal) if !body.members.contains_key("originator") => {
            Err(existing::decided(state, caller, Stated::of_order(&body.members), refusal).await)
        }
        prepared => prepared,
    }
}

async fn of_order(json: &JsonBody, state: &App) -> Result<PreparedBody, Error> {
    let (body, mut faults) = (&Object::root(&json.members), Faults::default());
    let order = Order::read(body, &state.corridors, &mut faults);
    let options = PreparationOptions::read(body, &mut faults);
    if let Some(order) = &order {
        options.check_family(order.terms.source.family(), &mut faults);
    }
    let order = faults.or(order)?;
    let source = &order.terms.source;
    let account = source.account().originator();
    let originator = options.originator(json, source, &account, state).await?;
    order.check_deadlines(state.services.clock.now(), state.deadlines)?;
    let payment_id = PaymentId::derive(&originator, &order.request_id);
    let scheme = options.scheme(&order.terms, &order.escrow_contract, options.cap(&order.terms), state).await?;
    let request = order.authorization(&payment_id, order.terms.hash(), scheme);
    let checked = |plan: &EscrowPlan| Ok(horizons::check_plan(plan, order.quote_deadline, state.deadlines)?);
    messages(&request, &order.verifier, options.payload.as_ref(), state, checked, |prepared| prepared.amount).await
}

/// A quote of a batch is accepted with the signature, so its hash is signed, under the batch's corridor and deadlines.
async fn of_award(json: &JsonBody, state: &App) -> Result<PreparedBody, Error> {
    let (body, mut faults) = (&Object::root(&json.members), Faults::default());
    order::version(body, &mut faults);
    let request_id = order::request_id(body, &mut faults);
    let quote_request_id: Option<&str> = body.required("quote_request_id", &mut faults);
    let quote_id: Option<&str> = body.required("quote_id", &mut faults);
    let mut options = PreparationOptions::read(body, &mut faults);
    if let Some(auth) = body.optional_object("originator_auth", &mut faults) {
        credential::check(&auth, &mut faults);
    }
    let (request_id, (quote_request_id, quote_id)) = faults.or(request_id.zip(quote_request_id.zip(quote_id)))?;

    let quote_request_id: QuoteRequestId = quote_request_id.parse().map_err(|_| Code::QUOTE_REQUEST_NOT_FOUND)?;
    let (batch, begun) = award::load_from(state, &quote_request_id).await?;
    let quote = award::quote(&batch, quote_id)?;
    let terms = &batch.opened.terms;
    let mut faults = Faults::default();
    options.check_family(terms.source.family(), &mut faults);
    faults.or(Some(()))?;
    echo::check(&json.members, &batch.opened)?;
    let originator = options.originator(json, &terms.source, &batch.opened.originator, state).await?;
    let payment_id = PaymentId::derive(&originator, request_id);
    let award = Award { batch: &batch, begun, quote, payment_id };
    award.check(state.services.clock.now())?;
    award.check_batch(state)?;
    let scheme = options.scheme(terms, &batch.opened.escrow.contract, award.price(), state).await?;
    // An authorization of a token's is drawn whole.
    if terms.max_source_amount.is_none() || scheme == MessageScheme::EvmEip3009 {
        options.permit_at_most(quote);
    }
    let request = award.authorization(state, scheme, &[])?;
    let checked = |plan: &EscrowPlan| award.check_horizons(plan, state);
    let (verifier, payload) = (&batch.opened.verifier, options.payload.as_ref());
    messages(&request, verifier, payload, state, checked, |prepared| match prepared.draw {
        PreparedDraw::Transfer(_) | PreparedDraw::Mandate(_) | PreparedDraw::PayerDeposit => prepared.amount,
        PreparedDraw::Permit2(_) | PreparedDraw::Delegate(_) => award.drawn(prepared.amount),
    })
    .await
}

/// The messages, for windows that pass `check`, of which so much as `drawn` says is going to be drawn.
async fn messages(
    request: &AuthorizationRequest<'_>,
    verifier: &VerifierRef,
    payload: Option<&Map<String, Value>>,
    state: &App,
    check: impl FnOnce(&EscrowPlan) -> Result<(), Error>,
    drawn: impl FnOnce(&Prepared) -> Amount,
) -> Result<PreparedBody, Error> {
    state.corridors.check_scheme(request.terms.source.asset().chain(), request.message_scheme)?;
    let mut prepared = state.services.authorizer.prepare(request, payload).await.map_err(unsignable)?;
    check(&prepared.escrow)?;
    let (source, amount) = (&request.terms.source, drawn(&prepared));
    let spend = Spend { source, amount, draw: prepared.draw(), escrow: &prepared.escrow };
    // A payment that was accepted has its funds committed, and may have used its nonce up by them.
    let known = state.services.payments.view(request.payment_id).await.ok().flatten().is_some();
    let FirstSteps { wrap, mut approval } =
        if known { FirstSteps::default() } else { state.funds.unsigned(&spend).await? };
    // A signature is cheaper for the payer than a transaction, where the token takes one.
    if approval.is_some()
        && let Some(allowance) = state.services.authorizer.allowance(request, &prepared).await.map_err(unsignable)?
    {
        prepared.messages.insert(0, allowance);
        approval = None;
    }
    Ok(PreparedBody {
        payment_id: request.payment_id.clone(),
        message_scheme: request.message_scheme.name(),
        wrap,
        approval,
        signed_messages: prepared.messages.into_iter().map(MessageBody::from).collect(),
        fulfillment_verifier: verifier.into(),
    })
}

/// Nothing was signed yet, so it is the request that cannot be signed for.
pub(crate) fn unsignable(error: AuthorizeError) -> Error {
    match error {
        AuthorizeError::Refused(reason) => Error::new(Code::INVALID_REQUEST, reason),
        other => other.into(),
    }
}

impl PreparationOptions {
    fn read(body: &Object<'_>, faults: &mut Faults) -> Self {
        let scheme = body.optional("message_scheme", faults);
        let scheme = scheme.and_then(|name| sender_auth::scheme(name, "message_scheme", faults));
        let payload: Option<&Map<String, Value>> = body.optional("payload", faults);
        let originator: Option<&str> = body.optional("originator", faults);
        let originator = originator
            .and_then(|text| text.parse().map_err(|rule: events::did::Error| faults.invalid("originator", rule)).ok());
        envelope::check_form(body, faults);
        Self { scheme, payload: payload.cloned(), originator }
    }

    /// Who is going to ask. A body that proves it is believed; one that only names it is told what it would have to sign,
    /// which harms nobody: the submission needs the proof. Not so on Tron: the answer holds the reserver's signature for this
    /// payment id, with which its payer can use the id up on chain before the one whose id it is. There only the source's
    /// own account needs no proof.
    /// Where neither is there it is `else_it_is`.
    async fn originator(
        &self,
        body: &JsonBody,
        source: &OwnedAsset,
        else_it_is: &str,
        state: &App,
    ) -> Result<String, Error> {
        let proven = state.prove(body).await?;
        envelope::credentials_count(&proven)?;
        let unproven = self.originator.as_ref().map_or(else_it_is, |named| named.as_str());
        let own = source.account().originator();
        match (&self.originator, proven.originator()) {
            (Some(named), Some(proven)) if named.as_str() != proven.as_str() => {
                Err(Error::new(Code::INVALID_REQUEST, "originator: is not the one that the proof shows"))
            }
            (_, None) if has_countersignature(source.family()) && unproven != own => {
                let rule = "originator: must be proven by this request, too, where the source is on Tron";
                Err(Error::new(Code::INVALID_REQUEST, rule))
            }
            (Some(named), _) => Ok(named.to_string()),
            (None, Some(proven)) => Ok(proven.to_string()),
            (None, None) => Ok(else_it_is.to_owned()),
        }
    }

    fn check_family(&self, source: Family, faults: &mut Faults) {
        if self.scheme.is_some_and(|scheme| scheme.family() != source) {
            let namespace = source.namespace();
            faults.invalid("message_scheme", format!("is not a scheme of the source's chain ({namespace})"));
        }
    }

    /// The scheme that is asked for, or else offered.
    async fn scheme(
        &self,
        terms: &Terms,
        escrow: &Account,
        drawn: Option<Amount>,
        state: &App,
    ) -> Result<MessageScheme, Error> {
        let wish = Wish { source: &terms.source, escrow, drawn };
        match self.scheme {
            Some(scheme) => Ok(scheme),
            None => state.services.authorizer.offered(&wish).await.map_err(unsignable),
        }
    }

    /// The most that may be spent, by the terms or by what the payer chooses.
    fn cap(&self, terms: &Terms) -> Option<Amount> {
        let chosen = self.payload.as_ref().and_then(|payload| payload.get("permitted_amount")).and_then(uint);
        terms.max_source_amount.or(chosen.and_then(Amount::new))
    }

    /// The price, where neither the terms nor the payer say what may be spent.
    fn permit_at_most(&mut self, quote: &CollectedDocument) {
        if let Ok(signed) = SignedQuote::parse_stored(&quote.document) {
            let price = signed.quote().source_amount.to_string();
            self.payload.get_or_insert_default().entry("permitted_amount").or_insert_with(|| price.into());
        }
    }
}

/// Whether what is prepared for a payer of this family holds a signature of the gateway's.
fn has_countersignature(family: Family) -> bool {
    match family {
        Family::Tron => true,
        Family::Evm | Family::Solana => false,
    }
}

impl From<UnsignedMessage> for MessageBody {
    fn from(UnsignedMessage { message, message_prehash, payload }: UnsignedMessage) -> Self {
        Self { message, message_prehash, payload }
    }
}
