//! Collection of quotes: from gathered bids to the event that ends it.

use events::{
    event::{AuctionClosed, DroppedBid},
    quote_request::{BatchSelection, QuotesCollected},
    selection::{self, SignedChoice},
    time::Timestamp,
};

use super::QuoteRequest;
use crate::{
    auction::{SURPLUS, Sifted, collected, received, request_for_batch, sift, split_surplus},
    ports::{Gathered, SelectionRequest},
};

impl QuoteRequest {
    /// What ends the collection with what was gathered: every eligible quote, best first, and no winner.
    pub fn collect(&self, gathered: Gathered, at: Timestamp) -> QuotesCollected {
        let sifted = sift(&request_for_batch(&self.opened), None, gathered, at);
        let Sifted { addressed, mut quotes, declines, mut dropped, held_policies, passed_over } = sifted;
        dropped.extend(split_surplus(&mut quotes).into_iter().map(|signed| DroppedBid {
            settler: signed.quote().settler.token().to_string(),
            reason: SURPLUS.to_owned(),
        }));
        let received = quotes.iter().map(received).collect();
        QuotesCollected {
            auction: AuctionClosed {
                addressed,
                quotes: received,
                declines,
                dropped,
                held_policies,
                passed_over,
                alternates: Vec::new(),
                closed_at: at,
            },
            quotes: quotes.iter().map(collected).collect(),
            selection: None,
        }
    }

    /// What the quote selector is shown of `collected`; `None` where the request names none, or there is nothing to choose.
    pub fn selection(&self, collected: &QuotesCollected) -> Option<SelectionRequest> {
        let opened = &self.opened;
        let (selector, answer_by) = opened.selector.zip(opened.selector_answer_by)?;
        let quotes = &collected.quotes;
        (!quotes.is_empty()).then(|| SelectionRequest {
            selector,
            auction_id: opened.quote_request_id.to_string(),
            terms: opened.terms.clone(),
            terms_hash: opened.terms_hash,
            quote_deadline: opened.quote_deadline,
            answer_by,
            quotes: quotes.iter().map(|quote| quote.quote_hash).collect(),
            documents: quotes.iter().map(|quote| quote.document.clone()).collect(),
        })
    }
}

/// A choice as it is recorded, when `request`'s selector signed it about these quotes.
///
/// # Errors
/// Why it is not followed.
pub fn selected(request: &SelectionRequest, choice: SignedChoice) -> Result<BatchSelection, selection::Error> {
    let verified = choice.verify(&request.selector, request.shown())?;
    Ok(BatchSelection { quote_hash: verified.quote_hash, choice: choice.text, signature: choice.signature })
}
