//! Decisions about the auction: its close, the selector's choice, and the winner's answer to its award.

use events::{
    Failure, PaymentEvent,
    event::{
        AuctionClosed, AwardLapsed, CollectedDocument, Failed, QuoteAwarded, RefundDue, SelectorAnswered,
        SelectorAsked, WinnerTold, WithdrawalCause,
    },
    failure::{Domain, RetryClassification},
    quote::SignedQuote,
    selection::SignedChoice,
    time::Timestamp,
};

use super::{Decided, escrow::withdrawn, reassignment::not_reassigned};
use crate::{
    auction::Judgement,
    payment::{Payment, Stage},
};

/// The collection window is over.
pub(super) fn close(payment: &Payment, judgement: Judgement, at: Timestamp) -> Decided {
    let is_open = matches!(payment.stage(), Stage::Auction | Stage::Reopened)
        && payment.submitted.collected_quote.is_none()
        && payment.auction.is_none();
    is_open.then(|| closed(payment, judgement, at))
}

fn closed(payment: &Payment, judgement: Judgement, at: Timestamp) -> Vec<PaymentEvent> {
    let Judgement { addressed, quotes, declines, dropped, held_policies, passed_over, alternates, winner, offered } =
        judgement;
    let nobody = addressed.is_empty();
    let auction =
        AuctionClosed { addressed, quotes, declines, dropped, held_policies, passed_over, alternates, closed_at: at };
    let outcome = match winner {
        _ if !offered.is_empty() => {
            let documents = offered.iter().map(|signed| signed.document().to_owned()).collect();
            PaymentEvent::SelectorAsked(SelectorAsked { documents, asked_at: at })
        }
        Some(signed) => awarded(&signed, at),
        None if payment.is_reopened => {
            return std::iter::once(PaymentEvent::AuctionClosed(auction))
                .chain(not_reassigned(payment, "and no other settler offered to", at))
                .collect();
        }
        None => PaymentEvent::Failed(Box::new(Failed {
            failure: Failure {
                code: Failure::NO_QUOTES_RECEIVED.to_owned(),
                message: if nobody {
                    "nobody serves this corridor, or none of those that the request admits: no settler could be asked"
                } else {
                    "no settler offered a usable quote before the quote deadline"
                }
                .to_owned(),
                domain: Some(Domain::SettlerGateway),
                retry_classification: Some(RetryClassification::RetryWithNewRequestId),
                blockchain_context: None,
            },
            refund: RefundDue::Nothing,
            failed_at: at,
        })),
    };
    vec![PaymentEvent::AuctionClosed(auction), outcome]
}

fn awarded(signed: &SignedQuote, at: Timestamp) -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        document: signed.document().to_owned(),
        awarded_at: at,
    }))
}

/// The choice and what follows from it; `None` also when it is not a valid choice of the quotes that were shown.
pub(super) fn take_choice(payment: &Payment, choice: SignedChoice, at: Timestamp) -> Decided {
    if payment.stage() != Stage::Auction {
        return None;
    }
    let request = payment.selection()?;
    let verified = choice.verify(&request.selector, request.shown()).ok()?;
    let outcome = match verified.quote_hash {
        Some(chosen) => {
            let index = request.quotes.iter().position(|quote| *quote == chosen)?;
            awarded(&SignedQuote::parse_stored(request.documents.get(index)?).ok()?, at)
        }
        None => {
            let reason = verified.reason.unwrap_or_default();
            let message = format!("the quote selector took none of the quotes: {reason}");
            unselected(Failure::NO_QUOTE_SELECTED, &message, at)
        }
    };
    let answered = SelectorAnswered { choice: choice.text, signature: choice.signature, answered_at: at };
    Some(vec![PaymentEvent::SelectorAnswered(answered), outcome])
}

/// The quote selector gave no valid choice in time.
pub(super) fn miss_choice(payment: &Payment, at: Timestamp) -> Decided {
    if payment.stage() != Stage::Auction || payment.selection().is_none() {
        return None;
    }
    let message = format!("the quote selector gave no valid choice in time; {}", payment.untaken());
    Some(vec![unselected(Failure::SELECTOR_UNAVAILABLE, &message, at)])
}

/// A failure that the payer's selector brought about, before anything was asked of a chain.
fn unselected(code: &str, message: &str, at: Timestamp) -> PaymentEvent {
    PaymentEvent::Failed(Box::new(Failed {
        failure: Failure {
            code: code.to_owned(),
            message: message.to_owned(),
            domain: Some(Domain::ExternalService),
            retry_classification: Some(RetryClassification::RetryWithNewRequestId),
            blockchain_context: None,
        },
        refund: RefundDue::Nothing,
        failed_at: at,
    }))
}

/// The winner does not stand by its quote, or did not answer; nothing was signed for it. The next quote is awarded while there is
/// one, else the payment fails.
pub(super) fn lose_winner(payment: &Payment, refusal: Option<String>, at: Timestamp) -> Decided {
    let is_unsigned = match payment.stage() {
        Stage::Awarded => payment.deposit.count == 0,
        stage => stage == Stage::Reawarded && !payment.is_reassignment_signed(),
    };
    let lost = payment.award.as_ref().filter(|_| is_unsigned)?;
    let next = payment.next_quote(at);
    if next.is_none() && !payment.is_reopened {
        return Some(winner_lost(payment, refusal, at));
    }
    let lapsed =
        AwardLapsed { settler: lost.quote.settler.clone(), quote_hash: lost.event.quote_hash, refusal, lapsed_at: at };
    let mut events = vec![PaymentEvent::AwardLapsed(lapsed)];
    match next.cloned() {
        Some(CollectedDocument { quote_id, quote_hash, document, .. }) => {
            let awarded = QuoteAwarded { quote_id, quote_hash, document, awarded_at: at };
            events.push(PaymentEvent::QuoteAwarded(Box::new(awarded)));
        }
        None => events.extend(not_reassigned(payment, "and the one that was to deliver in its place does not", at)),
    }
    Some(events)
}

fn winner_lost(payment: &Payment, refusal: Option<String>, at: Timestamp) -> Vec<PaymentEvent> {
    let (code, why) = match &refusal {
        Some(reason) => {
            (Failure::AWARD_REFUSED, format!("the settler that won does not stand by its quote ({reason})"))
        }
        None => (Failure::AWARD_UNANSWERED, "the settler that won did not answer in time".to_owned()),
    };
    let failure = Failure {
        code: code.to_owned(),
        message: format!("{why}; {}", payment.untaken()),
        domain: Some(Domain::SettlerAgent),
        retry_classification: Some(RetryClassification::RetryWithNewRequestId),
        blockchain_context: None,
    };
    withdrawn(WithdrawalCause::lost(refusal), failure, at)
}

/// The winner finds that its award is over.
pub(super) fn tell_winner(payment: &Payment, at: Timestamp) -> Decided {
    (payment.stage() == Stage::Withdrawn).then(|| vec![PaymentEvent::WinnerTold(WinnerTold { told_at: at })])
}
