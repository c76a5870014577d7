//! The event fold: events folded into state. Also the definition of which transitions are legal, used by auditors.

use events::{
    Failure, PaymentEvent,
    event::{CollectedQuote, RefundDue, Submitted, TransactionAbandoned, TransactionPrepared, WithdrawalCause},
    quote::SignedQuote,
    selection::SignedChoice,
};

use super::{Attempts, Awarded, Payment, Stage, VERSIONS_MAX};
use crate::auction::{check_content, request_for_quotes};

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
            PaymentEvent::Submitted(submitted) => Ok(Payment {
                submitted: submitted.clone(),
                auction: None,
                offer: None,
                choice: None,
                award: None,
                withdrawn: None,
                told: false,
                deposit: Attempts::default(),
                secured: None,
                opened: None,
                ruled_out: false,
                seen: None,
                unattested: false,
                confirmed: None,
                release: Attempts::default(),
                released: None,
                failed: None,
                refund: Attempts::default(),
                refunded: None,
            }),
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
    match (event, stage) {
        (PaymentEvent::AuctionClosed(_), Stage::Auction) if payment.submitted.collected_quote.is_some() => {
            return refuse("its quotes were collected in a batch");
        }
        (PaymentEvent::AuctionClosed(closed), Stage::Auction) if payment.auction.is_none() => {
            payment.auction = Some(closed.clone());
        }
        (PaymentEvent::SelectorAsked(asked), Stage::Auction)
            if payment.submitted.selector.is_some() && payment.offer.is_none() && payment.choice.is_none() =>
        {
            let eligible = payment.auction.as_ref().map_or(0, |auction| auction.quotes.len());
            if eligible == 0 || asked.documents.len() != eligible {
                return refuse("the selector is shown the eligible quotes");
            }
            payment.offer = Some(Box::new(asked.clone()));
        }
        (PaymentEvent::SelectorAnswered(answered), Stage::Auction) => {
            let Some(request) = payment.selection() else { return refuse("no selector is asked") };
            match SignedChoice::from(answered).verify(&request.selector, request.shown()) {
                Ok(choice) => payment.choice = Some(Box::new(choice)),
                Err(error) => return refuse(&error.to_string()),
            }
        }
        (PaymentEvent::QuoteAwarded(awarded), Stage::Auction)
            if payment.auction.is_some() || payment.submitted.collected_quote.is_some() =>
        {
            let signed = match awarded.signed_quote() {
                Ok(signed) if signed.hash() == awarded.quote_hash && signed.id() == awarded.quote_id => signed,
                Ok(_) => return refuse("the stored quote does not have the stored hash"),
                Err(error) => return refuse(&error.to_string()),
            };
            if let Some(collected) = &payment.submitted.collected_quote
                && let Err(rule) = check_collected(&payment.submitted, collected, &signed)
            {
                return refuse(&rule);
            }
            if payment.submitted.selector.is_some() {
                let chosen = payment.choice.as_ref().and_then(|choice| choice.quote_hash);
                if chosen != Some(awarded.quote_hash) {
                    return refuse("the payer's selector did not choose this quote");
                }
                if payment.offer.as_ref().is_none_or(|offer| !offer.documents.contains(&awarded.document)) {
                    return refuse("the document is not the one that the selector was shown");
                }
                payment.offer = None;
            }
            let quote = signed.quote().clone();
            payment.award = Some(Box::new(Awarded { event: (**awarded).clone(), quote }));
        }
        (PaymentEvent::AwardWithdrawn(withdrawn), Stage::Awarded | Stage::Depositing) => {
            let shown = payment.deposit.count > 0;
            if shown && withdrawn.cause != WithdrawalCause::NotDeposited {
                return refuse("a deposit was signed for the winner");
            }
            payment.withdrawn = Some(withdrawn.cause.clone());
        }
        (PaymentEvent::WinnerTold(_), Stage::Withdrawn) => payment.told = true,
        (PaymentEvent::DepositPrepared(transaction), Stage::Awarded) => {
            if let Err(reason) = payment.deposit.begin(transaction) {
                return refuse(reason);
            }
        }
        (PaymentEvent::DepositRepriced(transaction), Stage::Depositing) => {
            if let Err(reason) = payment.deposit.replace(transaction) {
                return refuse(reason);
            }
        }
        (PaymentEvent::DepositAbandoned(abandoned), Stage::Depositing) => {
            if let Err(reason) = payment.deposit.give_up(abandoned) {
                return refuse(reason);
            }
        }
        (PaymentEvent::EscrowSecured(secured), Stage::Awarded | Stage::Depositing) => {
            payment.secured = Some(secured.clone())
        }
        (PaymentEvent::FulfillmentSeen(seen), Stage::Secured | Stage::Finalizing) => {
            payment.seen = Some(seen.inclusion.clone());
            payment.unattested = false;
        }
        (PaymentEvent::AttestationAwaited(awaited), Stage::Finalizing) if !payment.unattested => {
            if payment.seen.as_ref() != Some(&awaited.inclusion) {
                return refuse("the attestation is awaited of a delivery that was seen elsewhere");
            }
            payment.unattested = true;
        }
        (PaymentEvent::FulfillmentConfirmed(confirmed), Stage::Finalizing) => {
            payment.confirmed = Some(Box::new(confirmed.clone()));
            payment.unattested = false;
        }
        (PaymentEvent::ReleasePrepared(transaction), Stage::Completed) => {
            if let Err(reason) = payment.release.begin(transaction) {
                return refuse(reason);
            }
        }
        (PaymentEvent::ReleaseRepriced(transaction), Stage::Completed) => {
            if let Err(reason) = payment.release.replace(transaction) {
                return refuse(reason);
            }
        }
        (PaymentEvent::ReleaseAbandoned(abandoned), Stage::Completed) => {
            if let Err(reason) = payment.release.give_up(abandoned) {
                return refuse(reason);
            }
        }
        (PaymentEvent::EscrowReleased(_), Stage::Refunding) if payment.opened.is_some() => {
            return refuse("no settler was named for the escrow");
        }
        (PaymentEvent::EscrowReleased(released), Stage::Completed | Stage::Refunding) => {
            payment.released = Some(released.inclusion.clone());
        }
        (PaymentEvent::EscrowOpened(opened), Stage::Awarded | Stage::Depositing | Stage::Watching) => {
            if !payment.submitted.authorization.is_payer_deposit() {
                return refuse("a deposit under this scheme is reserved at once");
            }
            payment.opened = Some(opened.clone());
        }
        (PaymentEvent::DepositRuledOut(_), Stage::Watching) => payment.ruled_out = true,
        (PaymentEvent::Failed(failed), Stage::Auction | Stage::Awarded | Stage::Depositing) => {
            match (&failed.refund, &payment.opened) {
                (RefundDue::AfterWindow, Some(_)) if payment.withdrawn.is_some() => {
                    return refuse("money is in escrow, and the award was taken back without it");
                }
                (RefundDue::Nothing, None) | (RefundDue::AfterWindow, Some(_)) => {}
                (_, None) => return refuse("no money was in escrow"),
                (_, Some(_)) => return refuse("money is in escrow and must be returned after its window"),
            }
            payment.offer = None;
            payment.failed = Some(failed.clone());
        }
        (PaymentEvent::Failed(failed), Stage::Secured | Stage::Finalizing) => {
            if failed.refund == RefundDue::Nothing {
                return refuse("money is in escrow and must be returned");
            }
            if failed.failure.code == Failure::DELIVERED_NOT_ATTESTED && !payment.unattested {
                return refuse("no settled delivery is on record whose attestation is missing");
            }
            payment.failed = Some(failed.clone());
        }
        (PaymentEvent::RefundPrepared(transaction), Stage::Refunding) => {
            if let Err(reason) = payment.refund.begin(transaction) {
                return refuse(reason);
            }
        }
        (PaymentEvent::RefundRepriced(transaction), Stage::Refunding) => {
            if let Err(reason) = payment.refund.replace(transaction) {
                return refuse(reason);
            }
        }
        (PaymentEvent::RefundAbandoned(abandoned), Stage::Refunding) => {
            if let Err(reason) = payment.refund.give_up(abandoned) {
                return refuse(reason);
            }
        }
        (PaymentEvent::EscrowRefunded(refunded), Stage::Refunding | Stage::Completed) => {
            payment.refunded = Some(refunded.clone());
        }
        _ => return refuse("not legal in this stage"),
    }
    Ok(payment)
}

/// The state after all of `events`; `None` when there are none.
///
/// # Errors
/// [`IllegalTransition`] of the first event that cannot follow.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a PaymentEvent>) -> Result<Option<Payment>, IllegalTransition> {
    events.into_iter().try_fold(None, |state, event| evolve(state, event).map(Some))
}

/// Whether `signed` is the collected quote that the payer authorized the payment for. A signature with a witness says so
/// itself, by the quote's hash.
fn check_collected(submitted: &Submitted, collected: &CollectedQuote, signed: &SignedQuote) -> Result<(), String> {
    if signed.id() != collected.quote_id {
        return Err("the quote is not the one the payment was submitted with".to_owned());
    }
    // Without a witness the payer signs no quote.
    if submitted.authorization.quote_hash().is_some_and(|agreed| agreed != signed.hash()) {
        return Err("the payer signed for another quote".to_owned());
    }
    let request = request_for_quotes(submitted);
    check_content(&request, Some(submitted.authorization.permitted()), &signed.quote().settler, signed.quote())
}

impl Attempts {
    /// Starts another attempt.
    fn begin(&mut self, transaction: &TransactionPrepared) -> Result<(), &'static str> {
        if !self.live.is_empty() {
            return Err("an earlier attempt may still land");
        }
        if transaction.attempt != self.count + 1 {
            return Err("attempts are numbered without gaps");
        }
        self.count = transaction.attempt;
        self.live.push(transaction.clone());
        Ok(())
    }

    /// Whether `transaction` may stand beside the versions of the attempt that is alive. That it makes the same call and
    /// offers more is for the chain's adapter to see to: only it can read the bytes.
    pub(super) fn replaced_by(&self, transaction: &TransactionPrepared) -> Result<(), &'static str> {
        let Some(newest) = self.newest() else { return Err("no attempt is under way") };
        if transaction.attempt != newest.attempt {
            return Err("a replacement belongs to the attempt under way");
        }
        if (&transaction.chain_id, &transaction.sender, transaction.validity)
            != (&newest.chain_id, &newest.sender, newest.validity)
        {
            return Err("a replacement has the chain, the sender and the validity of what it replaces");
        }
        let hash = &transaction.transaction_hash;
        if self.live.iter().any(|version| version.transaction_hash == *hash || version.raw == transaction.raw) {
            return Err("a replacement differs from what it replaces");
        }
        if self.live.len() >= VERSIONS_MAX {
            return Err("the attempt was replaced as often as is allowed");
        }
        Ok(())
    }

    fn replace(&mut self, transaction: &TransactionPrepared) -> Result<(), &'static str> {
        self.replaced_by(transaction)?;
        self.live.push(transaction.clone());
        Ok(())
    }

    fn give_up(&mut self, abandoned: &TransactionAbandoned) -> Result<(), &'static str> {
        match self.newest() {
            Some(newest) if newest.attempt == abandoned.attempt => {
                self.live.clear();
                Ok(())
            }
            _ => Err("no such attempt is under way"),
        }
    }
}
