//! What is found in histories that no gateway would write, although every transition in them is legal.

use std::slice;

use chrono::TimeDelta;
use ed25519_dalek::SigningKey;

use events::{
    ChainId, Did, Event, OwnedAsset, PaymentId, Terms,
    event::{
        AuctionClosed, Authorization, Permit2, SelectorAnswered, SelectorAsked, SelectorRef, Submitted, VerifierRef,
    },
    journal::{Position, Recorded},
    quote::auction_of,
    selection::{Choice, SelectorSigner, Shown},
    time::from_unix_seconds,
};
use sagas::{auction::received, payment::fold};

use super::*;

const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";

/// Quotes until 10, deposit until 30, delivery until 60, refund from 100.
fn at(seconds: i64) -> Timestamp {
    from_unix_seconds(1_800_000_000).unwrap() + TimeDelta::seconds(seconds)
}

fn selector() -> SelectorSigner {
    SelectorSigner::Ed25519(SigningKey::from_bytes(&[100; 32]))
}

fn submitted(answer_by: i64) -> Submitted {
    let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), ACCOUNT).unwrap();
    let amount = |text: &str| text.parse().unwrap();
    let terms = Terms::new(owned("eip155:1/slip44:60"), vec![owned("eip155:10/slip44:60")], amount("1000"), None);
    let originator = terms.source.account().originator();
    Submitted {
        payment_id: PaymentId::derive(&originator, "one"),
        request_id: "one".to_owned(),
        originator,
        terms_hash: terms.hash(),
        terms,
        quote_deadline: at(10),
        fulfillment_deadline: at(60),
        authorization: Authorization::EvmPermit2Escrow(Permit2 {
            amount: amount("1100"),
            nonce: Hash32([3; 32]),
            deadline: unix_seconds(at(30)),
            quote_hash: Hash32::ZERO,
            signature: "0x".to_owned(),
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: ACCOUNT.to_owned(),
            reserver: ACCOUNT.to_owned(),
            releaser: ACCOUNT.to_owned(),
            reserve_deadline: unix_seconds(at(30)),
            fulfillment_deadline: unix_seconds(at(60)),
            refund_after: unix_seconds(at(100)),
        },
        fulfillment_proxies: vec![ACCOUNT.to_owned()],
        verifier: VerifierRef { account: ACCOUNT.to_owned(), endpoint: "https://verifier.example".to_owned() },
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        selector: Some(SelectorRef { key: selector().key(), answer_by: at(answer_by) }),
        counterparty: None,
        identities: Vec::new(),
        submitted_at: at(0),
        request: "{}".to_owned(),
    }
}

fn quote(n: u8, price: &str) -> SignedQuote {
    let key = SigningKey::from_bytes(&[n; 32]);
    let submitted = submitted(15);
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: auction_of(&submitted.payment_id),
        terms_hash: submitted.terms_hash,
        settler: Did::from_ed25519(&key.verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: price.parse().unwrap(),
        payout_account: ACCOUNT.to_owned(),
        escrow_contract: ACCOUNT.to_owned(),
        destination: submitted.terms.destination()[0].clone(),
        fulfillment_amount: submitted.terms.fulfillment_amount,
        delivery_account: ACCOUNT.to_owned(),
        fulfillment_proxy: ACCOUNT.to_owned(),
        fulfill_by: at(60),
        valid_until: at(30),
    };
    quote.sign(&key, at(1)).unwrap()
}

/// The checks that find something when the selector, with time until `answer_by`, chose the first of the quotes on
/// `record` and was shown `documents`.
fn found(answer_by: i64, record: &[SignedQuote], documents: &[SignedQuote]) -> Vec<String> {
    let submitted = submitted(answer_by);
    let auction_id = auction_of(&submitted.payment_id);
    let quotes: Vec<QuoteReceived> = record.iter().map(received).collect();
    let hashes: Vec<Hash32> = quotes.iter().map(|quote| quote.quote_hash).collect();
    let shown = Shown { auction_id: &auction_id, terms_hash: submitted.terms_hash, quotes: &hashes };
    let choice = Choice::of(shown, hashes[0]).sign(&selector());
    let closed = AuctionClosed {
        addressed: quotes.iter().map(|quote| quote.settler.clone()).collect(),
        quotes,
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        closed_at: at(10),
    };
    let documents = documents.iter().map(|quote| quote.document().to_owned()).collect();
    let stream_id = StreamId::from(&submitted.payment_id);
    let payment_events = [
        PaymentEvent::Submitted(Box::new(submitted)),
        PaymentEvent::AuctionClosed(closed),
        PaymentEvent::SelectorAsked(SelectorAsked { documents, asked_at: at(10) }),
        PaymentEvent::SelectorAnswered(SelectorAnswered {
            choice: choice.text,
            signature: choice.signature,
            answered_at: at(11),
        }),
    ];
    let payment = fold(&payment_events).unwrap().unwrap();
    let commit = Recorded {
        stream_id,
        position: Position { version: 1, sequence: 1, hash: Hash32::ZERO },
        shard: 0,
        commit_id: events::CommitId::random(),
        prev: Hash32::ZERO,
        correlation: String::new(),
        causation: String::new(),
        stored_at: at(0),
        events: payment_events.into_iter().map(Event::from).collect(),
    };
    let examined = Examined {
        subject: "gw.evt.00.x".to_owned(),
        stream: "EVT_00".to_owned(),
        messages: 1,
        commits: vec![commit],
        state: Some(State::Payment(Box::new(payment))),
        findings: Vec::new(),
    };
    check(&examined).into_iter().map(|finding| finding.check).collect()
}

#[test]
fn a_selector_that_was_shown_other_quotes_than_are_on_record_is_found() {
    let (cheap, dear, forbidden) = (quote(1, "1010"), quote(2, "1050"), quote(3, "1101"));
    assert_eq!(found(15, &[cheap.clone(), dear.clone()], &[cheap.clone(), dear.clone()]), Vec::<String>::new());
    assert_eq!(found(15, &[cheap.clone(), dear.clone()], &[cheap.clone(), quote(2, "1049")]), ["selection"]);
    // The payer permits 1100.
    assert_eq!(found(15, &[cheap.clone(), forbidden.clone()], &[cheap.clone(), forbidden]), ["selection"]);
    for outside in [9, 31] {
        assert_eq!(found(outside, slice::from_ref(&cheap), slice::from_ref(&cheap)), ["deadline"], "{outside}");
    }
}
