//! Quote-request batches given by their events, on the terms of the other tests.

use events::{
    Event, Hash32, PaymentEvent, PaymentId, QuoteRequestEvent, QuoteRequestId, StreamId,
    event::{Authorization, Permit2, QuoteAwarded},
    quote::{Quote, SignedQuote},
    quote_request::{QuoteRequestAwarded, QuoteRequestOpened},
    time::unix_seconds,
};
use journal::{Commit, Position, Recorded, StreamStore, memory::MemoryJournal};
use sagas::{
    QuoteRequest,
    ports::{Answer, Bid, Gathered},
    quote_request::{AwardCall, fold},
};

use super::*;

pub fn batch_id() -> QuoteRequestId {
    QuoteRequestId::derive("tests", "batch")
}

/// Quotes until 10, delivery until 60, refund from 100.
pub fn opening() -> QuoteRequestOpened {
    let like = submission();
    QuoteRequestOpened {
        quote_request_id: batch_id(),
        request_id: "batch".to_owned(),
        originator: "tests".to_owned(),
        terms: like.terms,
        terms_hash: like.terms_hash,
        quote_deadline: at(10),
        quote_deadline_text: "a deadline".to_owned(),
        fulfillment_deadline: at(60),
        fulfillment_deadline_text: "another deadline".to_owned(),
        escrow: like.escrow.of_batch(unix_seconds(at(60)), 40),
        fulfillment_proxies: like.fulfillment_proxies,
        verifier: like.verifier,
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        counterparty: None,
        identities: Vec::new(),
        selector: None,
        selector_answer_by: None,
        caller_secret_hash: None,
        opened_at: at(0),
        request: "{}".to_owned(),
    }
}

/// A good quote of settler `n` over `price` for the batch, valid until 50.
pub fn batch_quote(n: u8, price: &str) -> SignedQuote {
    signed(n, Quote { auction_id: batch_id().to_string(), valid_until: at(50), ..quote(n, price) })
}

pub fn bid(n: u8, answer: Answer) -> Bid {
    Bid { settler: did(n).token(), received_at: at(2), answer }
}

pub fn offer(n: u8, quote: &SignedQuote) -> Bid {
    bid(n, Answer::Quote(quote.document().to_owned()))
}

pub fn opened() -> QuoteRequestEvent {
    QuoteRequestEvent::Opened(Box::new(opening()))
}

/// Collected with a quote of settler 1 over 1010 and one of settler 2 over 1005.
pub fn collected() -> QuoteRequestEvent {
    let bids = vec![offer(1, &batch_quote(1, "1010")), offer(2, &batch_quote(2, "1005"))];
    let gathered = Gathered { addressed: vec![did(1), did(2)], bids, ..Gathered::default() };
    QuoteRequestEvent::Collected(Box::new(batch(&[opened()]).collect(gathered, at(10))))
}

pub fn batch_awarded(quote_id: String, payment_id: PaymentId) -> QuoteRequestEvent {
    QuoteRequestEvent::Awarded(QuoteRequestAwarded { quote_id, payment_id, awarded_at: at(20) })
}

pub fn batch(events: &[QuoteRequestEvent]) -> QuoteRequest {
    fold(events).unwrap().unwrap()
}

/// The call under `request_id` for `quote`, which the payer signed for.
pub fn call(request_id: &str, quote: &SignedQuote) -> AwardCall {
    AwardCall {
        quote_request_id: batch_id(),
        quote_id: quote.id(),
        request_id: request_id.to_owned(),
        originator: "tests".to_owned(),
        authorization: permit(quote.hash()),
        escrow: submission().escrow,
        counterparty: None,
        identities: Vec::new(),
        request: "{}".to_owned(),
        correlation: "test".to_owned(),
    }
}

pub fn permit(quote_hash: Hash32) -> Authorization {
    let Authorization::EvmPermit2Escrow(permit) = submission().authorization else { unreachable!() };
    Authorization::EvmPermit2Escrow(Permit2 { quote_hash, ..permit })
}

pub fn award_of(quote: &SignedQuote) -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: quote.id(),
        quote_hash: quote.hash(),
        document: quote.document().to_owned(),
        awarded_at: at(20),
    }))
}

/// Appends behind what `stream_id` holds.
pub async fn append(journal: &MemoryJournal, stream_id: impl Into<StreamId>, events: Vec<Event>) {
    let stream_id = stream_id.into();
    let commits = journal.load(&stream_id).await.unwrap();
    let commit = Commit {
        expected: commits.last().map_or(Position::START, |last| last.position),
        stream_id,
        commit_id: events::CommitId::random(),
        events,
        correlation: "test".to_owned(),
        causation: "test".to_owned(),
    };
    journal.append(&commit).await.unwrap();
}

/// The types of all events of a stream.
pub async fn types_of(journal: &dyn StreamStore, stream_id: impl Into<StreamId>) -> Vec<&'static str> {
    let commits: Vec<Recorded> = journal.load(&stream_id.into()).await.unwrap();
    commits.iter().flat_map(|commit| &commit.events).map(Event::type_name).collect()
}
