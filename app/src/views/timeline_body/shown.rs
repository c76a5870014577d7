//! Timeline entries: what each kind of event shows of itself in a payment's history.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use events::{
    ChainId, PaymentEvent,
    event::{
        AttestationAwaited, AuctionClosed, AwardLapsed, AwardWithdrawn, DepositMined, EscrowOpened, EscrowReassigned,
        EscrowRefunded, EscrowReleased, EscrowSecured, Failed, FulfillmentConfirmed, FulfillmentFinalized, Inclusion,
        MemberAttested, PayerStep, PayerTransactionSent, QuoteAwarded, RefundDue, ReservationLapsed, SelectorAnswered,
        Submitted, TransactionAbandoned, TransactionPrepared, WithdrawalCause,
    },
    quote::SignedQuote,
    selection::Choice,
    time::{Timestamp, from_unix_seconds},
};
use projections::{PaymentStatus, PaymentView};

use crate::views::{
    payment_body::{ClaimBody, FailureBody, TransactionBody, date_time},
    verifier::VerifierBody,
};

/// The stage in which the payer's own deposit is reserved for the settler.
const RESERVATION: &str = "reservation";
/// The stage in which the escrow is reserved for another settler than the one that did not deliver.
const REASSIGNMENT: &str = "reassignment";

/// What an event shows of itself.
pub(super) struct Shown {
    pub(super) summary: String,
    pub(super) transactions: Vec<(&'static str, TransactionBody)>,
    pub(super) data: Map<String, Value>,
}

impl Shown {
    fn new(summary: impl Into<String>, data: Value) -> Self {
        let data = match data {
            Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        Self { summary: summary.into(), transactions: Vec::new(), data }
    }

    /// The transaction of a stage in a settled block.
    fn at(self, stage: &'static str, inclusion: &Inclusion) -> Self {
        self.in_block(stage, inclusion, true)
    }

    /// The transaction of a stage in a block that may be left.
    fn provisionally_at(self, stage: &'static str, inclusion: &Inclusion) -> Self {
        self.in_block(stage, inclusion, false)
    }

    fn in_block(mut self, stage: &'static str, inclusion: &Inclusion, settled: bool) -> Self {
        let transaction = TransactionBody {
            transaction_hash: inclusion.transaction_hash.clone(),
            chain_id: inclusion.chain_id.clone(),
            block_number: Some(inclusion.block_number),
            settled: Some(settled),
            confirmations: None,
        };
        self.transactions.push((stage, transaction));
        self
    }

    fn sent(self, stage: &'static str, prepared: &TransactionPrepared) -> Self {
        self.in_no_block(stage, &prepared.chain_id, &prepared.transaction_hash)
    }

    fn in_no_block(mut self, stage: &'static str, chain_id: &ChainId, transaction_hash: &str) -> Self {
        let transaction = TransactionBody {
            transaction_hash: transaction_hash.to_owned(),
            chain_id: chain_id.clone(),
            block_number: None,
            settled: None,
            confirmations: None,
        };
        self.transactions.push((stage, transaction));
        self
    }
}

/// What `event` shows of itself. `view` is the payment after the commit that holds the event.
pub(super) fn shown(event: &PaymentEvent, view: &PaymentView, base_url: &str) -> Shown {
    match event {
        PaymentEvent::Submitted(submitted) => self::submitted(submitted),
        PaymentEvent::AddressFunded(funded) => Shown::new(
            "The money is at the payment's deposit address; settlers are asked for quotes.",
            json!({"amount": funded.amount, "quote_deadline": date_time(funded.quote_deadline)}),
        ),
        PaymentEvent::AddressHeld(held) => Shown::new(
            "There is money at the payment's deposit address, or at that of its batch, that nobody can deposit any more; it goes back to the payer.",
            json!({"amount": held.amount}),
        ),
        PaymentEvent::AuctionClosed(closed) => auction_closed(closed),
        PaymentEvent::SelectorAsked(asked) => Shown::new(
            "The quotes are shown to the selector that the request names.",
            json!({"quote_count": asked.documents.len()}),
        ),
        PaymentEvent::SelectorAnswered(answered) => selector_answered(answered),
        PaymentEvent::QuoteAwarded(awarded) => quote_awarded(awarded),
        PaymentEvent::AwardLapsed(lapsed) => award_lapsed(lapsed, view),
        PaymentEvent::AwardWithdrawn(withdrawn) => award_withdrawn(withdrawn),
        PaymentEvent::WinnerTold(_) => {
            Shown::new("The settler that had won finds that its award is over, and lets go of its tokens.", json!({}))
        }
        PaymentEvent::DepositPrepared(prepared) => deposit_prepared(prepared, view),
        PaymentEvent::DepositRepriced(prepared) => repriced("deposit", prepared),
        PaymentEvent::PayerTransactionSent(sent) => payer_sent(sent),
        PaymentEvent::DepositMined(mined) => deposit_mined(mined, view),
        PaymentEvent::DepositAbandoned(abandoned) => {
            self::abandoned("deposit", "another attempt may follow", abandoned)
        }
        PaymentEvent::EscrowSecured(secured) => escrow_secured(secured, view),
        PaymentEvent::EscrowOpened(opened) => escrow_opened(opened),
        PaymentEvent::DepositRuledOut(ruled_out) if ruled_out.left.is_some() => Shown::new(
            "The refund account takes nothing back, so the money stays where it is; anyone can have it given back.",
            json!({"left": ruled_out.left}),
        ),
        PaymentEvent::DepositRuledOut(_) if view.deposit_address.is_none() && view.leaves_money_outside => Shown::new(
            "Nothing of the payment lies outside of its escrow, and nothing can be deposited any more.",
            json!({}),
        ),
        PaymentEvent::DepositRuledOut(_) if view.deposit_address.is_some() => Shown::new(
            "Nothing that is worth a transaction is at the deposit address, and nothing can be deposited any more.",
            json!({}),
        ),
        PaymentEvent::DepositRuledOut(_) => {
            Shown::new("The payer's own transaction can deposit nothing any more. No money was taken.", json!({}))
        }
        PaymentEvent::ReservationLapsed(lapsed) => reservation_lapsed(lapsed),
        PaymentEvent::ReassignmentPrepared(prepared) => {
            let summary = "The escrow's reassignment to the settler that won now is signed and being sent.";
            attempt(summary, prepared.attempt).sent(REASSIGNMENT, prepared)
        }
        PaymentEvent::ReassignmentRepriced(prepared) => repriced(REASSIGNMENT, prepared),
        PaymentEvent::ReassignmentAbandoned(abandoned) => {
            self::abandoned(REASSIGNMENT, "another attempt may follow", abandoned)
        }
        PaymentEvent::EscrowReassigned(reassigned) => escrow_reassigned(reassigned, view),
        PaymentEvent::FulfillmentSeen(seen) => {
            let data = json!({"block_time": block_time(&seen.inclusion)});
            let summary = "The delivery is on chain and gathers confirmations.";
            Shown::new(summary, data).provisionally_at("fulfillment", &seen.inclusion)
        }
        PaymentEvent::FulfillmentFinalized(finalized) => fulfillment_finalized(finalized, view),
        PaymentEvent::FulfillmentConfirmed(confirmed) => fulfillment_confirmed(confirmed, view),
        PaymentEvent::AttestationMissed(_) => Shown::new(
            format!(
                "The refund window opened before {} attested the delivery: the settler cannot be paid any more, and the \
                 escrow goes back to the payer. The payment stays completed.",
                attesters(view)
            ),
            json!({"fulfillment_verifier": VerifierBody::from(&view.verifier)}),
        ),
        PaymentEvent::DeliveryAttested(attested) => {
            member_attested("One verifier of the payment's set attested the delivery.", attested, view)
        }
        PaymentEvent::NonDeliveryAttested(attested) => member_attested(
            "One verifier of the payment's set attested that nothing was delivered and nothing can be any more.",
            attested,
            view,
        ),
        PaymentEvent::AttestationAwaited(awaited) => attestation_awaited(awaited, view),
        PaymentEvent::ReleasePrepared(prepared) => {
            let summary =
                "The settler has not released the escrow, so the gateway does: the release is signed and being sent.";
            attempt(summary, prepared.attempt).sent("release", prepared)
        }
        PaymentEvent::ReleaseRepriced(prepared) => repriced("release", prepared),
        PaymentEvent::ReleaseAbandoned(abandoned) => {
            self::abandoned("release", "another attempt may follow", abandoned)
        }
        PaymentEvent::EscrowReleased(released) => escrow_released(released, view),
        PaymentEvent::Failed(failed) => self::failed(failed, view, base_url),
        PaymentEvent::RefundPrepared(prepared) => {
            attempt("The refund is signed and being sent.", prepared.attempt).sent("refund", prepared)
        }
        PaymentEvent::RefundRepriced(prepared) => repriced("refund", prepared),
        PaymentEvent::RefundAbandoned(abandoned) => self::abandoned("refund", "another attempt follows", abandoned),
        PaymentEvent::EscrowRefunded(refunded) => escrow_refunded(refunded, view),
    }
}

fn attempt(summary: impl Into<String>, attempt: u32) -> Shown {
    Shown::new(summary, json!({"attempt": attempt}))
}

/// The transaction of a stage is sent again.
fn repriced(stage: &'static str, prepared: &TransactionPrepared) -> Shown {
    let summary = format!(
        "The {stage} waits for a block and is sent again with higher fees; one of its transactions lands at most."
    );
    attempt(summary, prepared.attempt).sent(stage, prepared)
}

/// The transaction of a stage is given up.
fn abandoned(stage: &str, what_follows: &str, abandoned: &TransactionAbandoned) -> Shown {
    attempt(format!("The {stage} that was sent can never land; {what_follows}."), abandoned.attempt)
}

fn deposit_prepared(prepared: &TransactionPrepared, view: &PaymentView) -> Shown {
    let summary = match view.is_payer_deposit() {
        true => "The payer's deposit is on chain; its reservation for the settler is signed and being sent.",
        false => "The deposit is signed and being sent.",
    };
    let stage = if view.is_payer_deposit() { RESERVATION } else { "deposit" };
    attempt(summary, prepared.attempt).sent(stage, prepared)
}

fn payer_sent(sent: &PayerTransactionSent) -> Shown {
    let (summary, stage) = match sent.step {
        PayerStep::Approval => ("The payer's approval of the escrow was sent.", "approval"),
        PayerStep::Deposit => ("The payer's own deposit was sent.", "deposit"),
        PayerStep::Transfer => ("The buyer's transfer to the merchant's offer was sent.", "transfer"),
    };
    Shown::new(summary, json!({})).in_no_block(stage, &sent.chain_id, &sent.transaction_hash)
}

fn deposit_mined(mined: &DepositMined, view: &PaymentView) -> Shown {
    let data = json!({"block_time": block_time(&mined.inclusion)});
    let is_reservation = view.own_deposit.as_ref().is_some_and(|own| *own != mined.inclusion.transaction_hash);
    let (summary, stage) = match is_reservation {
        true => ("The reservation is on chain and gathers confirmations.", RESERVATION),
        false => ("The deposit is on chain and gathers confirmations.", "deposit"),
    };
    Shown::new(summary, data).provisionally_at(stage, &mined.inclusion)
}

fn escrow_secured(secured: &EscrowSecured, view: &PaymentView) -> Shown {
    let data = json!({"amount": secured.amount, "block_time": block_time(&secured.inclusion)});
    let quote = view.quote.as_ref().and_then(|quote| SignedQuote::parse_stored(&quote.document).ok());
    let price = quote.map(|signed| signed.quote().source_amount);
    let summary = match price.is_some_and(|price| price < secured.amount) {
        false => "The funds are in escrow, reserved for the settler.",
        true => {
            "The funds are in escrow, reserved for the settler. What is over its price comes back with its payment."
        }
    };
    let shown = Shown::new(summary, data);
    if !view.is_payer_deposit() {
        return shown.at("deposit", &secured.inclusion);
    }
    let shown = shown.at(RESERVATION, &secured.inclusion);
    match &secured.deposit {
        Some(own) => shown.at("deposit", own),
        None => shown,
    }
}

fn escrow_opened(opened: &EscrowOpened) -> Shown {
    let mut data = json!({"amount": opened.amount, "block_time": block_time(&opened.inclusion)});
    if let Some(quote_hash) = &opened.reserved_for {
        data["reserved_for"] = json!(quote_hash);
        let summary = "The gateway's journal was restored from a copy. The funds are in escrow, reserved for a quote whose award \
                       the copy does not have: the settler is paid if it has delivered, otherwise they go back to the payer \
                       when the refund window opens.";
        return Shown::new(summary, data).at("deposit", &opened.inclusion);
    }
    let summary = "The payer's own transaction brought the funds into escrow, where no settler can be named any more; they \
                   go back to the payer when the refund window opens.";
    Shown::new(summary, data).at("deposit", &opened.inclusion)
}

fn reservation_lapsed(lapsed: &ReservationLapsed) -> Shown {
    let data = json!({
        "settler": lapsed.settler,
        "quote_hash": lapsed.quote_hash,
        "quote_deadline": date_time(lapsed.quote_deadline),
    });
    let summary = "The settler did not deliver by the time that it promised; another is asked to deliver in its place. The money \
                   stays in escrow.";
    Shown::new(summary, data)
}

fn escrow_reassigned(reassigned: &EscrowReassigned, view: &PaymentView) -> Shown {
    let data = json!({
        "block_time": block_time(&reassigned.inclusion),
        "settler": view.settler(),
        "quote_hash": view.quote.as_ref().map(|quote| quote.quote_hash),
    });
    Shown::new("The escrow is reserved for another settler, which delivers now.", data)
        .at(REASSIGNMENT, &reassigned.inclusion)
}

/// Who attests: the verifier, or so many of a set as have to.
fn attesters(view: &PaymentView) -> String {
    match &view.verifier.set {
        Some(set) => format!("{} of {} fulfillment verifiers", set.threshold(), set.members().len()),
        None => "the fulfillment verifier".to_owned(),
    }
}

fn fulfillment_finalized(finalized: &FulfillmentFinalized, view: &PaymentView) -> Shown {
    let data = json!({"block_time": block_time(&finalized.inclusion)});
    let summary = format!(
        "The delivery is final. The attestation of {}, with which the settler is paid, is yet to come.",
        attesters(view)
    );
    Shown::new(summary, data).at("fulfillment", &finalized.inclusion)
}

fn fulfillment_confirmed(confirmed: &FulfillmentConfirmed, view: &PaymentView) -> Shown {
    let data = json!({
        "block_time": block_time(&confirmed.inclusion),
        "release_from": confirmed.release_from.map(date_time),
    });
    Shown::new(format!("The delivery is final, and {} attested it.", attesters(view)), data)
        .at("fulfillment", &confirmed.inclusion)
}

fn member_attested(summary: &'static str, attested: &MemberAttested, view: &PaymentView) -> Shown {
    let threshold = view.verifier.threshold();
    Shown::new(summary, json!({"verifier": attested.member, "attestation": attested.signature, "threshold": threshold}))
}

fn attestation_awaited(awaited: &AttestationAwaited, view: &PaymentView) -> Shown {
    let data = json!({
        "block_time": block_time(&awaited.inclusion),
        "fulfillment_verifier": VerifierBody::from(&view.verifier),
    });
    let summary = format!(
        "The delivery is final and, so far, without the attestation of {}; without that the settler cannot be paid.",
        attesters(view)
    );
    Shown::new(summary, data).at("fulfillment", &awaited.inclusion)
}

fn escrow_released(released: &EscrowReleased, view: &PaymentView) -> Shown {
    let summary = match released.claims.is_empty() {
        true => "The escrow paid the settler.",
        false => {
            "The escrow was released. The token would not hand over all of it; what it did not waits in the escrow as a claim \
             of its owner, to whom anyone can bring it."
        }
    };
    let data = json!({"block_time": block_time(&released.inclusion), "claims": claims(view)});
    Shown::new(summary, data).at("release", &released.inclusion)
}

fn escrow_refunded(refunded: &EscrowRefunded, view: &PaymentView) -> Shown {
    let summary = match refunded.claims.is_empty() {
        true => "The payer has the money back.",
        false => {
            "The escrow was refunded. The token would not hand the money to the payer; it waits in the escrow as the payer's \
             claim, which anyone can bring there, and which the payer can take to another account."
        }
    };
    let data = json!({
        "amount": refunded.amount,
        "block_time": block_time(&refunded.inclusion),
        "claims": claims(view),
    });
    Shown::new(summary, data).at("refund", &refunded.inclusion)
}

fn submitted(submitted: &Submitted) -> Shown {
    let terms = &submitted.terms;
    let message_scheme = submitted.authorization.scheme();
    let escrow = &submitted.escrow;
    let collected = submitted.collected_quote.as_ref();
    let data = json!({
        "request_id": submitted.request_id,
        "source": terms.source,
        "destination": terms.destination(),
        "fulfillment_amount": terms.fulfillment_amount,
        "max_source_amount": terms.max_source_amount,
        "quote_deadline": date_time(submitted.quote_deadline),
        "fulfillment_deadline": date_time(submitted.fulfillment_deadline),
        "message_scheme": message_scheme,
        "escrow": {
            "chain_id": escrow.chain_id,
            "contract_address": escrow.contract,
            "reserve_deadline": seconds(escrow.reserve_deadline),
            "refund_after": seconds(escrow.refund_after),
        },
        "fulfillment_verifier": VerifierBody::from(&submitted.verifier),
        "quote_request_id": collected.map(|collected| &collected.quote_request_id),
        "quote_id": collected.map(|collected| &collected.quote_id),
        "quote_selector": submitted.selector.as_ref().map(|selector| selector.key),
    });
    Shown::new("The payment was accepted.", data)
}

fn auction_closed(closed: &AuctionClosed) -> Shown {
    let mut declines = BTreeMap::<&str, u64>::new();
    // A settler that answered more than once counts under its last reason (spec 2.11).
    let latest: BTreeMap<_, _> = closed.declines.iter().map(|decline| (&decline.settler, &decline.reason)).collect();
    for reason in latest.into_values() {
        *declines.entry(reason).or_default() += 1;
    }
    let declines: Vec<_> = declines.iter().map(|(reason, count)| json!({"reason": reason, "count": count})).collect();
    let (requested, quotes) = (closed.addressed.len(), closed.quotes.len());
    let data = json!({
        "requested_count": requested,
        "quote_count": quotes,
        "dropped_count": closed.dropped.len(),
        "decline_summary": declines,
        "closed_at": date_time(closed.closed_at),
    });
    Shown::new(format!("The auction is over: {requested} settlers asked, {quotes} quotes."), data)
}

fn selector_answered(answered: &SelectorAnswered) -> Shown {
    // It was verified before it was stored.
    let choice: Option<Choice> = serde_json::from_str(&answered.choice).ok();
    let (chosen, reason) = choice.map(|choice| (choice.quote_hash, choice.reason)).unwrap_or_default();
    let summary = match chosen {
        Some(_) => "The selector chose a quote.",
        None => "The selector took none of the quotes.",
    };
    Shown::new(summary, json!({"quote_hash": chosen, "reason": reason}))
}

fn quote_awarded(awarded: &QuoteAwarded) -> Shown {
    let signed = awarded.signed_quote().ok();
    let quote = signed.as_ref().map(|signed| signed.quote());
    let data = json!({
        "quote_id": awarded.quote_id,
        "quote_hash": awarded.quote_hash,
        "settler": quote.map(|quote| &quote.settler),
        "source_amount": quote.map(|quote| quote.source_amount),
        "destination": quote.map(|quote| &quote.destination),
        "fulfill_by": quote.map(|quote| date_time(quote.fulfill_by)),
    });
    Shown::new("A quote was awarded.", data)
}

fn award_lapsed(lapsed: &AwardLapsed, view: &PaymentView) -> Shown {
    let lost = match &lapsed.refusal {
        Some(_) => "The settler that won does not stand by its quote",
        None => "The settler that won did not answer its award in time",
    };
    // The next award, or the failure, is in the same commit.
    let next = if view.status == PaymentStatus::Failed { "no other quote is left" } else { "the next one is awarded" };
    let summary = format!("{lost}; {next}.");
    let data = json!({"settler": lapsed.settler, "quote_hash": lapsed.quote_hash, "reason": lapsed.refusal});
    Shown::new(summary, data)
}

fn award_withdrawn(withdrawn: &AwardWithdrawn) -> Shown {
    let (summary, reason) = match &withdrawn.cause {
        WithdrawalCause::Refused { reason } => ("The settler that won does not stand by its quote.", Some(reason)),
        WithdrawalCause::Unanswered => ("The settler that won did not answer its award in time.", None),
        WithdrawalCause::NotDeposited => ("No deposit was made for the settler that won, and none can be.", None),
    };
    Shown::new(summary, json!({"cause": withdrawn.cause.code(), "reason": reason}))
}

fn failed(failed: &Failed, view: &PaymentView, base_url: &str) -> Shown {
    let refund = match &failed.refund {
        RefundDue::Nothing => "nothing_due",
        RefundDue::ByNonDelivery { .. } => "by_cancellation",
        RefundDue::AfterWindow => "after_refund_window",
    };
    let error = FailureBody::new(failed.failure.clone(), base_url);
    let summary = match &failed.refund {
        RefundDue::Nothing if view.watched && view.leaves_money_outside => {
            "The payment failed. What lies outside of its escrow goes back once nothing can be deposited any more."
        }
        RefundDue::Nothing if view.watched => {
            "The payment failed. The payer's own transaction is watched until it can deposit nothing any more; what it \
             deposits goes back."
        }
        RefundDue::Nothing => "The payment failed. No money was taken.",
        RefundDue::ByNonDelivery { .. } => "The payment failed. The escrow is being cancelled in favour of the payer.",
        RefundDue::AfterWindow => "The payment failed. The escrow goes back to the payer when its refund window opens.",
    };
    // A body of strings and numbers is always representable.
    let error = serde_json::to_value(error).unwrap_or_default();
    Shown::new(summary, json!({"error": error, "refund": refund}))
}

/// What waits in the escrow; nothing when all was paid out.
fn claims(view: &PaymentView) -> Option<Vec<ClaimBody>> {
    Some(ClaimBody::all(view)).filter(|claims| !claims.is_empty())
}

fn block_time(inclusion: &Inclusion) -> Option<String> {
    from_unix_seconds(inclusion.block_time).map(date_time)
}

/// A time of a chain, as responses write times.
fn seconds(unix: u64) -> Option<String> {
    from_unix_seconds(unix).map(|at: Timestamp| date_time(at))
}
