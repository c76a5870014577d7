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
    auction::{SURPLUS, Sifted, received, request_for_batch, sift, split_surplus},
    ports::Gathered,
};

impl QuoteRequest {
    /// The event that ends the collection with what was gathered: every eligible quote, best first, and no winner.
    pub fn collect(&self, gathered: Gathered, at: Timestamp) -> QuoteRequestEvent {
        let sifted = sift(&request_for_batch(&self.opened), None, gathered, at);
        let Sifted { addressed, mut quotes, declines, mut dropped, held_policies } = sifted;
        dropped.extend(split_surplus(&mut quotes).into_iter().map(|signed| DroppedBid {
            settler: signed.quote().settler.token().to_string(),
            reason: SURPLUS.to_owned(),
        }));
        let received = quotes.iter().map(received).collect();
        QuoteRequestEvent::Collected(Box::new(QuotesCollected {
            auction: AuctionClosed { addressed, quotes: received, declines, dropped, held_policies, closed_at: at },
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
