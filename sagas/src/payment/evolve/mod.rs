//! The event fold: events folded into state, one file for each leg of the saga as in [`super::decide`]. Also the definition
//! of which transitions are legal, used by auditors.

mod attempts;
mod auction;
mod escrow;
mod funding;
mod reassignment;
mod refund;
mod release;
mod settlement;

use std::borrow::Cow;

use events::{PaymentEvent, event::Submitted};

use super::{Attempts, Payment, Stage};

/// Whether an event follows: nothing once it was taken into the state, or the reason why it cannot.
type Followed = Result<(), Cow<'static, str>>;

/// Why an event cannot follow that belongs to another stage.
const NOT_LEGAL: Cow<'static, str> = Cow::Borrowed("not legal in this stage");

/// An event that cannot follow the events before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {event} cannot happen {at}: {reason}")]
pub struct IllegalTransition {
    /// The event's type.
    pub event: &'static str,
    /// The stage the payment was in.
    pub at: String,
    /// What forbids it.
    pub reason: String,
}

/// The state after `event`.
///
/// # Errors
/// [`IllegalTransition`] when the event cannot follow; the stored stream was then not written by this engine.
pub fn evolve(state: Option<Payment>, event: &PaymentEvent) -> Result<Payment, IllegalTransition> {
    let illegal = |at: String, reason: &str| IllegalTransition { event: event.type_name(), at, reason: reason.into() };
    let Some(mut payment) = state else {
        return match event {
            PaymentEvent::Submitted(submitted) => Ok(begin(submitted.clone())),
            _ => Err(illegal("before submission".into(), "a payment begins with Submitted")),
        };
    };
    let stage = payment.stage();
    let refuse = |reason: &str| Err(illegal(format!("in stage {stage:?}"), reason));
    if payment.opened.is_some() && payment.failed.is_none() && !matches!(event, PaymentEvent::Failed(_)) {
        return refuse("money that nobody can be paid from is in escrow, and only the failure may follow");
    }
    if payment.withdrawn.is_some() && payment.failed.is_none() && !matches!(event, PaymentEvent::Failed(_)) {
        return refuse("the award was taken back, and only the failure may follow");
    }
    let follows_lapse = matches!(event, PaymentEvent::QuoteAwarded(_))
        || payment.is_reopened && matches!(event, PaymentEvent::Failed(_));
    if payment.award.is_none() && !payment.lapsed.is_empty() && payment.failed.is_none() && !follows_lapse {
        return refuse(
            "the award lapsed, and only the next, or the failure of an escrow that is to be reassigned, may follow",
        );
    }
    follow(&mut payment, stage, event).map_err(|reason| illegal(format!("in stage {stage:?}"), &reason))?;
    Ok(payment)
}

/// A payment of which only the submission is known.
fn begin(submitted: Box<Submitted>) -> Payment {
    Payment {
        submitted,
        funded: None,
        auction: None,
        offer: None,
        choice: None,
        alternates: Vec::new(),
        award: None,
        lapsed: Vec::new(),
        withdrawn: None,
        winner_told: false,
        payer_sent: Vec::new(),
        transfer: None,
        deposit: Attempts::default(),
        deposit_mined: None,
        secured: None,
        opened: None,
        held: None,
        ruled_out: false,
        lapsed_reservations: Vec::new(),
        is_reopened: false,
        reassignment: Attempts::default(),
        reassigned: None,
        seen: None,
        finalized: None,
        attested_by: Vec::new(),
        nondelivery_by: Vec::new(),
        attestation_awaited: false,
        confirmed: None,
        attestation_missed: false,
        release: Attempts::default(),
        released: None,
        failed: None,
        refund: Attempts::default(),
        refunded: None,
    }
}

/// Takes `event` into the leg it belongs to.
fn follow(payment: &mut Payment, stage: Stage, event: &PaymentEvent) -> Followed {
    match event {
        PaymentEvent::Submitted(_) => Err(NOT_LEGAL),
        PaymentEvent::AddressFunded(funded) => funding::funded(payment, stage, funded),
        PaymentEvent::AddressHeld(held) => funding::held(payment, stage, held),
        PaymentEvent::AuctionClosed(closed) => auction::closed(payment, stage, closed),
        PaymentEvent::SelectorAsked(asked) => auction::selector_asked(payment, stage, asked),
        PaymentEvent::SelectorAnswered(answered) => auction::selector_answered(payment, stage, answered),
        PaymentEvent::QuoteAwarded(awarded) => auction::awarded(payment, stage, awarded),
        PaymentEvent::AwardLapsed(lapsed) => auction::lapsed(payment, stage, lapsed),
        PaymentEvent::AwardWithdrawn(withdrawn) => auction::withdrawn(payment, stage, withdrawn),
        PaymentEvent::WinnerTold(_) => auction::winner_told(payment, stage),
        PaymentEvent::PayerTransactionSent(sent) => escrow::payer_sent(payment, stage, sent),
        PaymentEvent::DepositPrepared(transaction) => escrow::prepared(payment, stage, transaction),
        PaymentEvent::DepositRepriced(transaction) => escrow::repriced(payment, stage, transaction),
        PaymentEvent::DepositMined(mined) => escrow::mined(payment, stage, mined),
        PaymentEvent::DepositAbandoned(abandoned) => escrow::abandoned(payment, stage, abandoned),
        PaymentEvent::EscrowSecured(secured) => escrow::secured(payment, stage, secured),
        PaymentEvent::EscrowOpened(opened) => escrow::opened(payment, stage, opened),
        PaymentEvent::DepositRuledOut(_) => escrow::ruled_out(payment, stage),
        PaymentEvent::ReservationLapsed(lapsed) => reassignment::lapsed(payment, stage, lapsed),
        PaymentEvent::ReassignmentPrepared(transaction) => reassignment::prepared(payment, stage, transaction),
        PaymentEvent::ReassignmentRepriced(transaction) => reassignment::repriced(payment, stage, transaction),
        PaymentEvent::ReassignmentAbandoned(abandoned) => reassignment::abandoned(payment, stage, abandoned),
        PaymentEvent::EscrowReassigned(reassigned) => reassignment::reassigned(payment, stage, reassigned),
        PaymentEvent::FulfillmentSeen(seen) => settlement::seen(payment, stage, seen),
        PaymentEvent::FulfillmentFinalized(finalized) => settlement::finalized(payment, stage, finalized),
        PaymentEvent::DeliveryAttested(attested) => settlement::attested(payment, stage, attested),
        PaymentEvent::NonDeliveryAttested(attested) => settlement::nondelivery_attested(payment, stage, attested),
        PaymentEvent::AttestationAwaited(awaited) => settlement::attestation_awaited(payment, stage, awaited),
        PaymentEvent::FulfillmentConfirmed(confirmed) => settlement::confirmed(payment, stage, confirmed),
        PaymentEvent::AttestationMissed(_) => settlement::attestation_missed(payment, stage),
        PaymentEvent::ReleasePrepared(transaction) => release::prepared(payment, stage, transaction),
        PaymentEvent::ReleaseRepriced(transaction) => release::repriced(payment, stage, transaction),
        PaymentEvent::ReleaseAbandoned(abandoned) => release::abandoned(payment, stage, abandoned),
        PaymentEvent::EscrowReleased(released) => release::released(payment, stage, released),
        PaymentEvent::RefundPrepared(transaction) => refund::prepared(payment, stage, transaction),
        PaymentEvent::RefundRepriced(transaction) => refund::repriced(payment, stage, transaction),
        PaymentEvent::RefundAbandoned(abandoned) => refund::abandoned(payment, stage, abandoned),
        PaymentEvent::EscrowRefunded(refunded) => refund::refunded(payment, stage, refunded),
        PaymentEvent::Failed(failed) => match stage {
            Stage::Funding | Stage::Auction | Stage::Awarded | Stage::Depositing => escrow::failed(payment, failed),
            Stage::Secured | Stage::Finalizing => settlement::failed(payment, failed),
            Stage::Reopened | Stage::Reawarded | Stage::Reassigning => reassignment::failed(payment, failed),
            _ => Err(NOT_LEGAL),
        },
    }
}

/// The state after all of `events`; `None` when there are none.
///
/// # Errors
/// [`IllegalTransition`] of the first event that cannot follow.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a PaymentEvent>) -> Result<Option<Payment>, IllegalTransition> {
    events.into_iter().try_fold(None, |state, event| evolve(state, event).map(Some))
}
