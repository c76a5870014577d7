//! Consistency checks on histories that no gateway would write, although every transition in them is legal.

use std::slice;

use chrono::TimeDelta;
use ed25519_dalek::SigningKey;

use events::{
    Account, ChainId, Did, Event, Failure, Family, OwnedAsset, PaymentId, Terms, VerifierMember, VerifierSet,
    event::{
        AttestationAwaited, AttestationMissed, AuctionClosed, Authorization, AwardLapsed, CollectedDocument,
        DepositRuledOut, EscrowOpened, EscrowRefunded, EscrowSecured, Failed, FulfillmentConfirmed,
        FulfillmentFinalized, FulfillmentSeen, Inclusion, PayerTransaction, Permit2, QuoteAwarded, SelectorAnswered,
        SelectorAsked, SelectorRef, Submitted, TronSpend, VerifierRef,
    },
    quote::{Quote, auction_of},
    selection::{Choice, SelectorSigner, Shown},
    time::from_unix_seconds,
};
use journal::{Position, Recorded};
use sagas::{auction::received, payment::fold};

use super::*;
use crate::report::{Report, Verdict};

pub(crate) const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";

/// Quotes until 10, deposit until 30, delivery until 60, refund from 100.
pub(crate) fn at(seconds: i64) -> Timestamp {
    from_unix_seconds(1_800_000_000).unwrap() + TimeDelta::seconds(seconds)
}

fn selector() -> SelectorSigner {
    SelectorSigner::Ed25519(SigningKey::from_bytes(&[100; 32]))
}

pub(crate) fn submitted(answer_by: i64) -> Submitted {
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
            allowance: None,
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: ACCOUNT.parse().unwrap(),
            reserver: ACCOUNT.parse().unwrap(),
            releaser: ACCOUNT.parse().unwrap(),
            reserve_deadline: unix_seconds(at(30)),
            fulfillment_deadline: unix_seconds(at(60)),
            refund_after: unix_seconds(at(100)),
        },
        fulfillment_proxies: vec![ACCOUNT.parse().unwrap()],
        verifier: VerifierRef::single(ACCOUNT.parse().unwrap(), "https://verifier.example".to_owned()),
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

pub(crate) fn quote(n: u8, price: &str) -> SignedQuote {
    let key = SigningKey::from_bytes(&[n; 32]);
    let submitted = submitted(15);
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: auction_of(&submitted.payment_id),
        terms_hash: submitted.terms_hash,
        settler: Did::from_ed25519(&key.verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: price.parse().unwrap(),
        payout_account: ACCOUNT.parse().unwrap(),
        escrow_contract: ACCOUNT.parse().unwrap(),
        destination: submitted.terms.destination()[0].clone(),
        fulfillment_amount: submitted.terms.fulfillment_amount,
        delivery_account: ACCOUNT.parse().unwrap(),
        fulfillment_proxy: ACCOUNT.parse().unwrap(),
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
        passed_over: Vec::new(),
        alternates: Vec::new(),
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
    checks(stream_id, payment_events.to_vec())
}

/// The checks that find something in a history, in one commit.
fn checks(stream_id: StreamId, events: Vec<PaymentEvent>) -> Vec<String> {
    let payment = fold(&events).unwrap().unwrap();
    let state = State::Payment(Box::new(payment));
    let found = check(&examined(stream_id, state, [events.into_iter().map(Event::from).collect()]));
    found.into_iter().map(|finding| finding.check).collect()
}

/// A stream of these commits that leads to `state`.
pub(crate) fn examined(stream_id: StreamId, state: State, commits: impl IntoIterator<Item = Vec<Event>>) -> Examined {
    let commits = (1..).zip(commits).map(|(sequence, events)| Recorded {
        stream_id: stream_id.clone(),
        position: Position { shard: 0, version: sequence, sequence, hash: Hash32::ZERO },
        commit_id: events::CommitId::random(),
        prev: Hash32::ZERO,
        correlation: String::new(),
        causation: String::new(),
        stored_at: at(0),
        events,
    });
    let commits: Vec<_> = commits.collect();
    Examined {
        subject: "gw.evt.00.x".to_owned(),
        stream: "EVT_00".to_owned(),
        messages: commits.len(),
        commits,
        is_mark: false,
        state: Some(state),
        findings: Vec::new(),
    }
}

/// The checks that find something in the history of a payer that deposits 1100 by a transaction of its own.
fn found_of_payer_deposit(quotes: &[SignedQuote], then: Vec<PaymentEvent>) -> Vec<String> {
    let deposit = PayerTransaction { transaction_hash: "0x01".to_owned(), raw: "0x0a".to_owned(), expires_at: 0 };
    let amount = "1100".parse().unwrap();
    let spend = TronSpend { amount, quote_hash: Hash32::ZERO, approval: None, deposit };
    let submitted = Submitted { authorization: Authorization::Tron(spend), selector: None, ..submitted(15) };
    let stream_id = StreamId::from(&submitted.payment_id);
    let closed = AuctionClosed {
        addressed: Vec::new(),
        quotes: quotes.iter().map(received).collect(),
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: Vec::new(),
        closed_at: at(10),
    };
    let awarded = quotes.first().map(|signed| {
        PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
            quote_id: signed.id(),
            quote_hash: signed.hash(),
            document: signed.document().to_owned(),
            awarded_at: at(10),
        }))
    });
    let begin = [PaymentEvent::Submitted(Box::new(submitted)), PaymentEvent::AuctionClosed(closed)];
    checks(stream_id, begin.into_iter().chain(awarded).chain(then).collect())
}

/// The checks that find something where the first of `quotes` lapses at 12 and then each of `next` follows, and the second could
/// be awarded until `valid_until`.
fn found_of_lapse(quotes: &[SignedQuote], next: &[usize], valid_until: i64) -> Vec<String> {
    let submitted = Submitted { selector: None, ..submitted(15) };
    let stream_id = StreamId::from(&submitted.payment_id);
    let alternates = quotes[1..].iter().enumerate().map(|(index, signed)| CollectedDocument {
        quote_id: signed.id(),
        quote_hash: signed.hash(),
        valid_until: if index == 0 { at(valid_until) } else { signed.quote().valid_until },
        document: signed.document().to_owned(),
    });
    let closed = AuctionClosed {
        addressed: quotes.iter().map(|signed| signed.quote().settler.clone()).collect(),
        quotes: quotes.iter().map(received).collect(),
        declines: Vec::new(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        passed_over: Vec::new(),
        alternates: alternates.collect(),
        closed_at: at(10),
    };
    let awarded = |signed: &SignedQuote, second| {
        PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
            quote_id: signed.id(),
            quote_hash: signed.hash(),
            document: signed.document().to_owned(),
            awarded_at: at(second),
        }))
    };
    let lapsed = |signed: &SignedQuote| {
        PaymentEvent::AwardLapsed(AwardLapsed {
            settler: signed.quote().settler.clone(),
            quote_hash: signed.hash(),
            refusal: None,
            lapsed_at: at(12),
        })
    };
    let mut events = vec![PaymentEvent::Submitted(Box::new(submitted)), PaymentEvent::AuctionClosed(closed)];
    events.push(awarded(&quotes[0], 10));
    for (before, next) in std::iter::once(&0).chain(next).zip(next) {
        events.extend([lapsed(&quotes[*before]), awarded(&quotes[*next], 12)]);
    }
    checks(stream_id, events)
}

#[test]
fn the_quote_that_follows_one_that_lapsed_has_to_be_the_next_best() {
    let without = |checks: Vec<String>| checks.into_iter().filter(|check| check != "originator").collect::<Vec<_>>();
    let quotes = [quote(1, "1010"), quote(2, "1020"), quote(3, "1030")];
    let found = |next: &[usize], valid_until| without(found_of_lapse(&quotes, next, valid_until));
    let none = Vec::<String>::new();
    assert_eq!(found(&[1], 30), none);
    assert_eq!(found(&[1, 2], 30), none);
    assert_eq!(found(&[2], 30), ["selection"]);
    // The second was over by then.
    assert_eq!(found(&[2], 13), none);
    assert_eq!(found(&[1], 13), ["selection"]);
    // Every award counts, also one that lapsed later, and the first, and the order of those that may follow.
    assert_eq!(found(&[1, 2], 13), ["selection", "selection"]);
    let dearest_first = [quote(3, "1030"), quote(1, "1010"), quote(2, "1020")];
    assert_eq!(without(found_of_lapse(&dearest_first, &[1], 30)), ["selection", "selection"]);
}

pub(crate) fn inclusion(second: i64) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(1),
        transaction_hash: "0x02".to_owned(),
        block_number: 7,
        block_hash: "0x03".to_owned(),
        block_time: unix_seconds(at(second)),
    }
}

fn failed(refund: RefundDue) -> PaymentEvent {
    failed_with(Failure::SETTLEMENT_FAILED, refund)
}

pub(crate) fn failed_with(code: &str, refund: RefundDue) -> PaymentEvent {
    let failure = Failure {
        code: code.to_owned(),
        message: String::new(),
        domain: None,
        retry_classification: None,
        blockchain_context: None,
    };
    PaymentEvent::Failed(Box::new(Failed { failure, refund, failed_at: at(31) }))
}

fn opened(second: i64) -> PaymentEvent {
    PaymentEvent::EscrowOpened(EscrowOpened {
        inclusion: inclusion(second),
        amount: "1100".parse().unwrap(),
        reserved_for: None,
    })
}

pub(crate) fn refunded(amount: &str) -> PaymentEvent {
    PaymentEvent::EscrowRefunded(EscrowRefunded {
        inclusion: inclusion(101),
        amount: amount.parse().unwrap(),
        claims: Vec::new(),
    })
}

#[test]
fn all_of_a_payer_deposit_goes_into_the_escrow_and_what_went_in_comes_back() {
    let none = Vec::<String>::new();
    let sold = [quote(1, "1010")];
    let secured = |amount: &str| {
        PaymentEvent::EscrowSecured(EscrowSecured {
            inclusion: inclusion(20),
            amount: amount.parse().unwrap(),
            deposit: None,
        })
    };
    assert_eq!(found_of_payer_deposit(&sold, vec![secured("1100")]), none);
    // On the other chains only the price is drawn.
    assert_eq!(found_of_payer_deposit(&sold, vec![secured("1010")]), ["conservation"]);
    let nothing = failed(RefundDue::Nothing);
    assert_eq!(found_of_payer_deposit(&[], vec![nothing.clone()]), none);
    assert_eq!(found_of_payer_deposit(&[], vec![nothing.clone(), opened(20), refunded("1100")]), none);
    assert_eq!(found_of_payer_deposit(&[], vec![nothing, opened(20), refunded("1010")]), ["conservation"]);
    let stranded = vec![opened(30), failed(RefundDue::AfterWindow)];
    assert_eq!(found_of_payer_deposit(&sold, stranded.clone()), none);
    assert_eq!(found_of_payer_deposit(&sold, [stranded, vec![refunded("1099")]].concat()), ["conservation"]);
}

#[test]
fn a_payer_deposit_outside_its_window_is_found() {
    let nothing = failed(RefundDue::Nothing);
    assert_eq!(found_of_payer_deposit(&[], vec![nothing.clone(), opened(31)]), ["deadline"]);
    let ruled_out = |at| PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at, left: None });
    assert_eq!(found_of_payer_deposit(&[], vec![nothing.clone(), ruled_out(at(30))]), ["deadline"]);
    let just_past = at(30) + TimeDelta::milliseconds(1);
    assert_eq!(found_of_payer_deposit(&[], vec![nothing, ruled_out(just_past)]), Vec::<String>::new());
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

#[test]
fn a_delivery_that_was_not_attested_is_somebodys_loss_and_no_fault_of_the_records() {
    let sold = [quote(1, "1010")];
    let secured = PaymentEvent::EscrowSecured(EscrowSecured {
        inclusion: inclusion(20),
        amount: "1100".parse().unwrap(),
        deposit: None,
    });
    let awaited = |second| {
        let inclusion = inclusion(second);
        vec![
            secured.clone(),
            PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion.clone() }),
            PaymentEvent::AttestationAwaited(AttestationAwaited { inclusion, awaited_at: at(70) }),
        ]
    };
    let unattested = failed_with(Failure::DELIVERED_NOT_ATTESTED, RefundDue::AfterWindow);
    assert_eq!(found_of_payer_deposit(&sold, awaited(59)), Vec::<String>::new());
    assert_eq!(found_of_payer_deposit(&sold, [awaited(59), vec![unattested.clone()]].concat()), ["unattested"]);
    let completed = |second| {
        let inclusion = inclusion(second);
        let finalized = FulfillmentFinalized { inclusion: inclusion.clone(), finalized_at: at(65) };
        let missed = PaymentEvent::AttestationMissed(AttestationMissed { missed_at: at(101) });
        let seen = PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion });
        vec![secured.clone(), seen, PaymentEvent::FulfillmentFinalized(finalized), missed]
    };
    assert_eq!(found_of_payer_deposit(&sold, completed(59)[..3].to_vec()), Vec::<String>::new());
    assert_eq!(found_of_payer_deposit(&sold, completed(59)), ["unattested"]);
    let attested = |second| {
        let (attestation, release_from) = ("0x".to_owned(), None);
        let confirmed =
            FulfillmentConfirmed { inclusion: inclusion(second), attestation, confirmed_at: at(66), release_from };
        [&completed(59)[..3], &[PaymentEvent::FulfillmentConfirmed(confirmed)]].concat()
    };
    assert_eq!(found_of_payer_deposit(&sold, attested(59)), Vec::<String>::new());
    assert_eq!(found_of_payer_deposit(&sold, attested(58)), Vec::<String>::new(), "a reorganisation moved it");
    assert_eq!(found_of_payer_deposit(&sold, attested(61)), ["deadline"], "it was not in time there");
    let mut elsewhere = attested(59);
    let Some(PaymentEvent::FulfillmentConfirmed(confirmed)) = elsewhere.last_mut() else { unreachable!() };
    confirmed.inclusion.chain_id = ChainId::evm(2);
    assert_eq!(found_of_payer_deposit(&sold, elsewhere), ["delivery"], "another one is attested");
    // Whoever brought the refund: a payer's own leaves nothing on record of an attestation that was missed.
    let back = |then: Vec<PaymentEvent>| found_of_payer_deposit(&sold, [then, vec![refunded("1100")]].concat());
    assert_eq!(back(completed(59)[..3].to_vec()), ["unattested"]);
    assert_eq!(back(completed(59)), ["unattested"], "once");
    assert_eq!(back(attested(59)), ["unreleased"]);
    // What was not delivered is nobody's loss.
    let undelivered = vec![secured.clone(), failed(RefundDue::AfterWindow)];
    assert_eq!(back(undelivered), Vec::<String>::new());
    assert_eq!(found_of_payer_deposit(&sold, completed(61)[..3].to_vec()), ["deadline"]);
    // What came too late is none that had to be attested.
    assert_eq!(found_of_payer_deposit(&sold, awaited(61)), ["deadline"]);
    let mut report = Report::default();
    report.add(Finding::new(Severity::Loss, "unattested", JournalLocation::default(), "a loss"));
    assert_eq!((report.verdict(), report.counts.loss), (Verdict::Proven, 1));
    assert!(!Severity::Loss.is_fault());
}

/// A member of a verifier set, by the bytes of its account.
pub(crate) fn member(byte: u8) -> VerifierMember {
    let account = Account::from_bytes(Family::Evm, &[byte; 20]).unwrap();
    VerifierMember { account, endpoint: format!("https://verifier-{byte}.example") }
}

/// Members 1 to `n`, of which `threshold` have to attest.
pub(crate) fn verifier_set(threshold: u8, n: u8) -> VerifierSet {
    VerifierSet::new(threshold, (1..=n).map(member).collect()).unwrap()
}

/// A payment whose escrow knows `set`, up to the deposit: submitted, sold for 1010 and secured.
pub(crate) fn secured_for(set: VerifierSet) -> Vec<PaymentEvent> {
    let account = set.id().unwrap();
    let escrow = EscrowPlan { releaser: account.clone(), ..submitted(15).escrow };
    // Written down, since a stream may name what no gateway makes: a set of one.
    let verifier = VerifierRef { account, endpoint: set.members()[0].endpoint.clone(), set: Some(set) };
    let submitted = Submitted { selector: None, escrow, verifier, ..submitted(15) };
    let sold = quote(1, "1010");
    vec![
        PaymentEvent::Submitted(Box::new(submitted)),
        PaymentEvent::AuctionClosed(AuctionClosed {
            addressed: Vec::new(),
            quotes: vec![received(&sold)],
            declines: Vec::new(),
            dropped: Vec::new(),
            held_policies: Vec::new(),
            passed_over: Vec::new(),
            alternates: Vec::new(),
            closed_at: at(10),
        }),
        PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
            quote_id: sold.id(),
            quote_hash: sold.hash(),
            document: sold.document().to_owned(),
            awarded_at: at(10),
        })),
        PaymentEvent::EscrowSecured(EscrowSecured {
            inclusion: inclusion(20),
            amount: "1010".parse().unwrap(),
            deposit: None,
        }),
    ]
}
