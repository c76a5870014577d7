//! The fold of the auction: its close, the selector's choice, the award and its withdrawal.

use events::{
    event::{
        AuctionClosed, AwardLapsed, AwardWithdrawn, CollectedQuote, QuoteAwarded, SelectorAnswered, SelectorAsked,
        Submitted, WithdrawalCause,
    },
    quote::SignedQuote,
    selection::SignedChoice,
};

use super::{Followed, NOT_LEGAL};
use crate::{
    auction::{check_content, request_for_quotes, takes_any_quote},
    payment::{Awarded, Payment, Stage},
};

pub(super) fn closed(payment: &mut Payment, stage: Stage, closed: &AuctionClosed) -> Followed {
    if !matches!(stage, Stage::Auction | Stage::Reopened) {
        return Err(NOT_LEGAL);
    }
    if payment.submitted.collected_quote.is_some() {
        return Err("its quotes were collected in a batch".into());
    }
    if payment.auction.is_some() {
        return Err(NOT_LEGAL);
    }
    if !closed.alternates.is_empty() {
        let next_best = closed.quotes.get(1..=closed.alternates.len()).unwrap_or_default();
        let are_next = next_best.iter().map(|quote| quote.quote_hash);
        let are_next = are_next.eq(closed.alternates.iter().map(|alternate| alternate.quote_hash));
        if !are_next || !takes_any_quote(&payment.submitted) {
            return Err("the quotes that may follow the winner's are not the next best".into());
        }
    }
    let mut auction = closed.clone();
    payment.alternates = std::mem::take(&mut auction.alternates);
    payment.auction = Some(auction);
    Ok(())
}

pub(super) fn selector_asked(payment: &mut Payment, stage: Stage, asked: &SelectorAsked) -> Followed {
    let expected = payment.submitted.selector.is_some() && payment.offer.is_none() && payment.choice.is_none();
    if stage != Stage::Auction || !expected {
        return Err(NOT_LEGAL);
    }
    let eligible = payment.auction.as_ref().map_or(0, |auction| auction.quotes.len());
    if eligible == 0 || asked.documents.len() != eligible {
        return Err("the selector is shown the eligible quotes".into());
    }
    payment.offer = Some(Box::new(asked.clone()));
    Ok(())
}

pub(super) fn selector_answered(payment: &mut Payment, stage: Stage, answered: &SelectorAnswered) -> Followed {
    if stage != Stage::Auction {
        return Err(NOT_LEGAL);
    }
    let Some(request) = payment.selection() else { return Err("no selector is asked".into()) };
    let choice = SignedChoice::from(answered).verify(&request.selector, request.shown());
    payment.choice = Some(Box::new(choice.map_err(|error| error.to_string())?));
    Ok(())
}

pub(super) fn awarded(payment: &mut Payment, stage: Stage, awarded: &QuoteAwarded) -> Followed {
    let is_open = matches!(stage, Stage::Auction | Stage::Reopened);
    if !is_open || payment.auction.is_none() && payment.submitted.collected_quote.is_none() {
        return Err(NOT_LEGAL);
    }
    let signed = awarded.signed_quote().map_err(|error| error.to_string())?;
    if signed.hash() != awarded.quote_hash || signed.id() != awarded.quote_id {
        return Err("the stored quote does not have the stored hash".into());
    }
    if !payment.lapsed.is_empty() {
        let next = payment.alternates.iter().position(|alternate| alternate.document == awarded.document);
        let Some(next) = next else { return Err("the quote is none of those that were kept for this".into()) };
        payment.alternates.drain(..=next);
    }
    if let Some(collected) = &payment.submitted.collected_quote {
        check_collected(&payment.submitted, collected, &signed)?;
    }
    if payment.is_reopened {
        let quote = signed.quote();
        check_content(&payment.request_for_quotes(), None, &quote.settler, quote)?;
    }
    if payment.submitted.selector.is_some() {
        let chosen = payment.choice.as_ref().and_then(|choice| choice.quote_hash);
        if chosen != Some(awarded.quote_hash) {
            return Err("the payer's selector did not choose this quote".into());
        }
        if payment.offer.as_ref().is_none_or(|offer| !offer.documents.contains(&awarded.document)) {
            return Err("the document is not the one that the selector was shown".into());
        }
        payment.offer = None;
    }
    let quote = signed.quote().clone();
    payment.award = Some(Box::new(Awarded { event: awarded.clone(), quote }));
    Ok(())
}

/// The award is over, and the payment waits for the next, which is in the same commit.
pub(super) fn lapsed(payment: &mut Payment, stage: Stage, lapsed: &AwardLapsed) -> Followed {
    let Some(award) = payment.award.as_ref().filter(|_| matches!(stage, Stage::Awarded | Stage::Reawarded)) else {
        return Err(NOT_LEGAL);
    };
    if award.event.quote_hash != lapsed.quote_hash || award.quote.settler != lapsed.settler {
        return Err("another quote is awarded".into());
    }
    if stage == Stage::Awarded && payment.deposit.count > 0 {
        return Err("a deposit was signed for the winner".into());
    }
    // Whoever was shown the reassignment may bring it, up to the winner's promise.
    if payment.is_reassignment_signed() {
        return Err("a reassignment was signed for the winner".into());
    }
    // What fails with the money in escrow is not taken back without a word to its winner.
    if stage == Stage::Awarded && payment.alternates.is_empty() {
        return Err("no quote was kept to be awarded in its place".into());
    }
    payment.lapsed.push(lapsed.settler.clone());
    payment.award = None;
    Ok(())
}

pub(super) fn withdrawn(payment: &mut Payment, stage: Stage, withdrawn: &AwardWithdrawn) -> Followed {
    if !matches!(stage, Stage::Awarded | Stage::Depositing) {
        return Err(NOT_LEGAL);
    }
    let shown = payment.deposit.count > 0;
    if shown && withdrawn.cause != WithdrawalCause::NotDeposited {
        return Err("a deposit was signed for the winner".into());
    }
    payment.withdrawn = Some(withdrawn.cause.clone());
    Ok(())
}

pub(super) fn winner_told(payment: &mut Payment, stage: Stage) -> Followed {
    if stage != Stage::Withdrawn {
        return Err(NOT_LEGAL);
    }
    payment.winner_told = true;
    Ok(())
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
