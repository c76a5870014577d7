//! The cause of a timeline entry: what made an event happen, as a word that a program can branch on.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use events::{
    Failure, PaymentEvent,
    event::{AuctionClosed, Failed, RefundDue, Submitted, WithdrawalCause},
    failure::Domain,
    time::Timestamp,
};
use projections::PaymentView;

/// Declares the causes, each with its word and its meaning.
macro_rules! causes {
    ($($name:ident $word:literal $meaning:literal;)*) => {
        /// What made an event happen.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub(super) enum Cause {
            $(#[doc = $meaning] #[serde(rename = $word)] $name,)*
        }

        /// The causes as words, and what they mean.
        const CAUSES: &[(&str, &str)] = &[$(($word, $meaning)),*];
    };
}

causes! {
    PaymentRequest "payment_request" "the payer's request";
    AddressRequest "address_request" "somebody asked for a deposit address";
    AddressFunded "address_funded" "the money is at the deposit address";
    NotFunded "not_funded" "too little came to the deposit address in time";
    MoneyAtAddress "money_at_address" "a settled block past the deposit's window holds money at the deposit address";
    QuoteAward "quote_award" "the payer's award of a collected quote";
    AllSettlersAnswered "all_settlers_answered" "every settler that was asked had answered";
    NoSettlerAsked "no_settler_asked" "no settler serves what was asked for";
    QuoteDeadline "quote_deadline" "the time for quotes was over";
    QuotesCollected "quotes_collected" "the quotes were there";
    BestQuote "best_quote" "the rule by which quotes win";
    SelectorChoice "selector_choice" "what the payer's quote selector signed";
    SelectorSilent "selector_silent" "the payer's quote selector gave no valid choice in time";
    NoQuotes "no_quotes" "nobody offered a usable quote";
    AwardAccepted "award_accepted" "the winner stands by its quote";
    AwardRefused "award_refused" "the winner does not stand by its quote";
    AwardUnanswered "award_unanswered" "the winner did not answer in time";
    AwardWithdrawn "award_withdrawn" "the award is over";
    PayerDeposit "payer_deposit" "the payer's own transaction is on chain";
    FeeTooLow "fee_too_low" "no block took the transaction at its price";
    CannotLand "cannot_land" "a settled block shows that the transaction cannot land any more, or failed";
    AttemptFailed "attempt_failed" "the attempt before came to nothing";
    NotDeposited "not_deposited" "the deposit was not made, and cannot be any more";
    DepositMined "deposit_mined" "a block of the source chain holds the deposit";
    DepositSettled "deposit_settled" "a settled block of the source chain holds the deposit";
    DeliveryMined "delivery_mined" "a block of the destination chain holds the delivery";
    DeliverySettled "delivery_settled" "the delivery has the confirmations that its chain requires";
    DeliveryAttested "delivery_attested" "the fulfillment verifier, or so many of a set as have to, attested the delivery";
    AttestationMissing "attestation_missing" "the fulfillment verifier, or so many of a set as have to, has not attested the delivery";
    NotDelivered "not_delivered" "a settled block past the deadline holds no delivery";
    NotReserved "not_reserved" "no settler could be named for the deposit in time";
    NotReassigned "not_reassigned" "nobody else was found to deliver, or the escrow could not be reassigned in time";
    ReassignmentSettled "reassignment_settled" "a settled block of the source chain holds the reassignment";
    NotReleased "not_released" "the settler had not released the escrow";
    ReleaseSettled "release_settled" "a settled block of the source chain holds the release";
    RefundWindow "refund_window" "the refund window is open";
    NonDeliveryAttested "non_delivery_attested" "the fulfillment verifier, or so many of a set as have to, attested that nothing was delivered";
    RefundSettled "refund_settled" "a settled block of the source chain holds the refund";
}

impl JsonSchema for Cause {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TimelineCause".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<_> = CAUSES.iter().map(|(word, _)| word).collect();
        let meanings: Vec<_> = CAUSES.iter().map(|(word, meaning)| format!("`{word}`: {meaning}.")).collect();
        let description = format!("What made it happen. {}", meanings.join(" "));
        json_schema!({"type": "string", "enum": words, "description": description})
    }
}

/// What the cause of an event depends on, of the events before it.
pub(super) struct Course<'a> {
    submitted: &'a Submitted,
    /// End of quote collection in the auction that is under way, or was the last.
    quote_deadline: Timestamp,
    /// Whether the escrow is to be reassigned.
    is_reopened: bool,
    /// Whether a reassignment to the winner came to nothing.
    is_retry: bool,
}

impl<'a> Course<'a> {
    /// That of a payment which begins.
    pub(super) fn of(submitted: &'a Submitted) -> Self {
        Self { submitted, quote_deadline: submitted.quote_deadline, is_reopened: false, is_retry: false }
    }

    /// Takes in an event whose cause was told.
    pub(super) fn go_on(&mut self, event: &PaymentEvent) {
        match event {
            PaymentEvent::AddressFunded(funded) => self.quote_deadline = funded.quote_deadline,
            PaymentEvent::ReservationLapsed(lapsed) => {
                *self = Self { quote_deadline: lapsed.quote_deadline, is_reopened: true, is_retry: false, ..*self }
            }
            PaymentEvent::ReassignmentAbandoned(_) => self.is_retry = true,
            PaymentEvent::EscrowReassigned(_) => self.is_reopened = false,
            _ => {}
        }
    }
}

/// What made `event` happen to a payment of this course. `view` is the payment after the commit that holds the event.
pub(super) fn cause(event: &PaymentEvent, course: &Course<'_>, view: &PaymentView) -> Cause {
    let submitted = course.submitted;
    match event {
        PaymentEvent::Submitted(submitted) if submitted.collected_quote.is_some() => Cause::QuoteAward,
        PaymentEvent::Submitted(submitted) if submitted.authorization.deposit_address().is_some() => {
            Cause::AddressRequest
        }
        PaymentEvent::Submitted(_) => Cause::PaymentRequest,
        PaymentEvent::AddressFunded(_) => Cause::AddressFunded,
        PaymentEvent::AddressHeld(_) => Cause::MoneyAtAddress,
        PaymentEvent::AuctionClosed(closed) => auction_closed(closed, course.quote_deadline),
        PaymentEvent::SelectorAsked(_) => Cause::QuotesCollected,
        PaymentEvent::SelectorAnswered(_) => Cause::SelectorChoice,
        PaymentEvent::QuoteAwarded(_) if submitted.collected_quote.is_some() => Cause::QuoteAward,
        PaymentEvent::QuoteAwarded(_) if submitted.selector.is_some() => Cause::SelectorChoice,
        PaymentEvent::QuoteAwarded(_) => Cause::BestQuote,
        PaymentEvent::AwardLapsed(lapsed) if lapsed.refusal.is_some() => Cause::AwardRefused,
        PaymentEvent::AwardLapsed(_) => Cause::AwardUnanswered,
        PaymentEvent::AwardWithdrawn(withdrawn) => match withdrawn.cause {
            WithdrawalCause::Refused { .. } => Cause::AwardRefused,
            WithdrawalCause::Unanswered => Cause::AwardUnanswered,
            WithdrawalCause::NotDeposited => Cause::NotDeposited,
        },
        PaymentEvent::WinnerTold(_) => Cause::AwardWithdrawn,
        PaymentEvent::PayerTransactionSent(_) => Cause::AwardAccepted,
        PaymentEvent::DepositPrepared(prepared) if prepared.attempt > 1 => Cause::AttemptFailed,
        PaymentEvent::DepositPrepared(_) if view.is_payer_deposit() => Cause::PayerDeposit,
        PaymentEvent::DepositPrepared(_) => Cause::AwardAccepted,
        PaymentEvent::DepositRepriced(_)
        | PaymentEvent::ReassignmentRepriced(_)
        | PaymentEvent::ReleaseRepriced(_)
        | PaymentEvent::RefundRepriced(_) => Cause::FeeTooLow,
        PaymentEvent::DepositAbandoned(_)
        | PaymentEvent::ReassignmentAbandoned(_)
        | PaymentEvent::ReleaseAbandoned(_)
        | PaymentEvent::RefundAbandoned(_) => Cause::CannotLand,
        PaymentEvent::ReservationLapsed(_) => Cause::NonDeliveryAttested,
        PaymentEvent::ReassignmentPrepared(_) if course.is_retry => Cause::AttemptFailed,
        PaymentEvent::ReassignmentPrepared(_) => Cause::AwardAccepted,
        PaymentEvent::EscrowReassigned(_) => Cause::ReassignmentSettled,
        PaymentEvent::DepositMined(_) => Cause::DepositMined,
        PaymentEvent::EscrowSecured(_) | PaymentEvent::EscrowOpened(_) => Cause::DepositSettled,
        PaymentEvent::DepositRuledOut(_) => Cause::NotDeposited,
        PaymentEvent::FulfillmentSeen(_) => Cause::DeliveryMined,
        PaymentEvent::FulfillmentFinalized(_) => Cause::DeliverySettled,
        PaymentEvent::DeliveryAttested(_) => Cause::DeliverySettled,
        PaymentEvent::NonDeliveryAttested(_) => Cause::NotDelivered,
        PaymentEvent::AttestationAwaited(_) => Cause::AttestationMissing,
        PaymentEvent::FulfillmentConfirmed(_) => Cause::DeliveryAttested,
        PaymentEvent::AttestationMissed(_) => Cause::RefundWindow,
        PaymentEvent::ReleasePrepared(prepared) if prepared.attempt > 1 => Cause::AttemptFailed,
        PaymentEvent::ReleasePrepared(_) => Cause::NotReleased,
        PaymentEvent::EscrowReleased(_) => Cause::ReleaseSettled,
        PaymentEvent::Failed(_) if course.is_reopened => Cause::NotReassigned,
        PaymentEvent::Failed(failed) => self::failed(failed),
        PaymentEvent::RefundPrepared(prepared) if prepared.attempt > 1 => Cause::AttemptFailed,
        PaymentEvent::RefundPrepared(_) if is_from_address(view) => Cause::MoneyAtAddress,
        PaymentEvent::RefundPrepared(_) => match view.refund_owed {
            Some(owed) if !owed.after_window => Cause::NonDeliveryAttested,
            _ => Cause::RefundWindow,
        },
        PaymentEvent::EscrowRefunded(_) => Cause::RefundSettled,
    }
}

/// Whether what goes back is at the deposit address, or that of the payment's batch: it was never in escrow.
fn is_from_address(view: &PaymentView) -> bool {
    view.leaves_money_outside && view.escrowed.is_none()
}

fn auction_closed(closed: &AuctionClosed, quote_deadline: Timestamp) -> Cause {
    if closed.addressed.is_empty() {
        Cause::NoSettlerAsked
    } else if closed.closed_at < quote_deadline {
        Cause::AllSettlersAnswered
    } else {
        Cause::QuoteDeadline
    }
}

fn failed(failed: &Failed) -> Cause {
    match (failed.failure.code.as_str(), &failed.refund) {
        (Failure::DEPOSIT_NOT_RECEIVED, _) => Cause::NotFunded,
        (Failure::NO_QUOTES_RECEIVED, _) => Cause::NoQuotes,
        (Failure::NO_QUOTE_SELECTED, _) => Cause::SelectorChoice,
        (Failure::SELECTOR_UNAVAILABLE, _) => Cause::SelectorSilent,
        (Failure::AWARD_REFUSED, _) => Cause::AwardRefused,
        (Failure::AWARD_UNANSWERED, _) => Cause::AwardUnanswered,
        (Failure::DELIVERED_NOT_ATTESTED, _) => Cause::AttestationMissing,
        (_, RefundDue::Nothing) => Cause::NotDeposited,
        (_, RefundDue::AfterWindow) if failed.failure.domain == Some(Domain::Blockchain) => Cause::NotReserved,
        (_, RefundDue::ByNonDelivery { .. } | RefundDue::AfterWindow) => Cause::NotDelivered,
    }
}
