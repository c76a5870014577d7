//! From gathered bids to the event that ends the collection.

use events::{
    QuoteRequestEvent,
    event::{AuctionClosed, DroppedBid},
    quote::SignedQuote,
    quote_request::{CollectedDocument, QuotesCollected},
    time::Timestamp,
};

use super::QuoteRequest;
use crate::{
    auction::{Sifted, received, request_for_batch, sift},
    ports::Gathered,
};

/// Most bytes that the quotes of one batch take in its commit, of which the journal limits the size. The best quotes
/// are kept, some hundreds of usual size; what does not fit is on record as dropped.
pub const DOCUMENTS_BYTES_MAX: usize = 384 * 1024;

impl QuoteRequest {
    /// The event that ends the collection with what was gathered: every eligible quote, best first, and no winner.
    pub fn collect(&self, gathered: Gathered, at: Timestamp) -> QuoteRequestEvent {
        let sifted = sift(&request_for_batch(&self.opened), None, gathered);
        let Sifted { addressed, mut quotes, declines, mut dropped } = sifted;
        let mut bytes = 0usize;
        let fitting = quotes.iter().take_while(|signed| {
            bytes = bytes.saturating_add(stored_bytes(signed.document()));
            bytes <= DOCUMENTS_BYTES_MAX
        });
        let fitting = fitting.count();
        dropped.extend(quotes.drain(fitting..).map(|signed| DroppedBid {
            settler: signed.quote().settler.token().to_string(),
            reason: "more and better quotes came than a batch can hold".to_owned(),
        }));
        let received = quotes.iter().map(received).collect();
        QuoteRequestEvent::Collected(Box::new(QuotesCollected {
            auction: AuctionClosed { addressed, quotes: received, declines, dropped, closed_at: at },
            quotes: quotes.iter().map(collected).collect(),
        }))
    }
}

fn collected(signed: &SignedQuote) -> CollectedDocument {
    CollectedDocument {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        valid_until: signed.quote().valid_until,
        document: signed.document().to_owned(),
    }
}

/// What `document` takes as a string in JSON.
fn stored_bytes(document: &str) -> usize {
    // Writing a string as JSON cannot fail.
    serde_json::to_string(document).map_or(usize::MAX, |text| text.len())
}
