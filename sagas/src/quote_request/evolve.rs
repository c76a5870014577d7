//! Folding a batch's events into its state. Also the definition of which transitions are legal, used by auditors.

use events::{QuoteRequestEvent, quote_request::QuotesCollected, selection::SignedChoice};

use super::{QuoteRequest, Stage, collect::selected};
use crate::payment::IllegalTransition;

/// The state after `event`.
///
/// # Errors
/// [`IllegalTransition`] when the event cannot follow; the stored stream was then not written by this engine.
pub fn evolve(state: Option<QuoteRequest>, event: &QuoteRequestEvent) -> Result<QuoteRequest, IllegalTransition> {
    let illegal = |at: String, reason: &str| IllegalTransition { event: event.type_name(), at, reason: reason.into() };
    let Some(mut batch) = state else {
        return match event {
            QuoteRequestEvent::Opened(opened) => {
                Ok(QuoteRequest { opened: opened.clone(), collected: None, awarded: None })
            }
            _ => Err(illegal("before it was opened".into(), "a batch begins with QuoteRequestOpened")),
        };
    };
    let stage = batch.stage();
    let refuse = |reason: &str| Err(illegal(format!("in stage {stage:?}"), reason));
    match (event, stage) {
        (QuoteRequestEvent::Collected(collected), Stage::Collecting) => {
            if !is_consistent(collected) {
                return refuse("the quotes are not those of the auction");
            }
            if !is_followed(&batch, collected) {
                return refuse("the selection is not the selector's choice of these quotes");
            }
            batch.collected = Some(collected.clone());
        }
        (QuoteRequestEvent::Awarded(awarded), Stage::Collected) => {
            match batch.quote(&awarded.quote_id) {
                None => return refuse("no such quote was collected"),
                Some(quote) if awarded.awarded_at > quote.valid_until => return refuse("the quote had lapsed"),
                Some(_) => {}
            }
            batch.awarded = Some(awarded.clone());
        }
        _ => return refuse("not legal in this stage"),
    }
    Ok(batch)
}

/// The state after all of `events`; `None` when there are none.
///
/// # Errors
/// [`IllegalTransition`] of the first event that cannot follow.
pub fn fold<'a>(
    events: impl IntoIterator<Item = &'a QuoteRequestEvent>,
) -> Result<Option<QuoteRequest>, IllegalTransition> {
    events.into_iter().try_fold(None, |state, event| evolve(state, event).map(Some))
}

/// Whether what is recorded of the quote selector is its signed choice of the quotes, where there is any.
fn is_followed(batch: &QuoteRequest, collected: &QuotesCollected) -> bool {
    let Some(recorded) = &collected.selection else { return true };
    let choice = SignedChoice { text: recorded.choice.clone(), signature: recorded.signature.clone() };
    batch.selection(collected).is_some_and(|request| selected(&request, choice).as_ref() == Ok(recorded))
}

fn is_consistent(collected: &QuotesCollected) -> bool {
    let received = collected.auction.quotes.iter().map(|quote| quote.quote_hash);
    received.eq(collected.quotes.iter().map(|quote| quote.quote_hash))
}
