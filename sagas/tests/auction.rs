//! Judging bids.

use crate::given::*;
use events::{
    Account, Did, Payload, PaymentEvent, QuoteRequestId,
    event::{CollectedQuote, EscrowPlan, SelectorRef, Submitted},
    identity::HeldPolicy,
    quote::Quote,
    selection::SelectorSigner,
    time::Timestamp,
};
use proptest::prelude::*;
use sagas::{
    auction::{judge, next_alternate, request_for_quotes},
    handlers::{Action, Step, next},
    ports::{Answer, Bid, Gathered},
};

fn bid(n: u8, received_at: Timestamp, answer: Answer) -> Bid {
    Bid { settler: did(n).token(), received_at, answer }
}

fn offers(n: u8, price: &str) -> Bid {
    bid(n, at(2), Answer::Quote(signed(n, quote(n, price)).document().to_owned()))
}

fn gathered(settlers: &[u8], bids: Vec<Bid>) -> Gathered {
    Gathered { addressed: settlers.iter().map(|n| did(*n)).collect(), bids, ..Gathered::default() }
}

fn winner(gathered: Gathered) -> Option<Did> {
    judge(&submission(), gathered, at(10)).winner.map(|signed| signed.quote().settler.clone())
}

#[test]
fn lowest_price_wins_then_earliest_delivery_then_lowest_hash() {
    assert_eq!(winner(gathered(&[1, 2], vec![offers(1, "1010"), offers(2, "1009")])), Some(did(2)));
    let sooner = Quote { fulfill_by: at(50), ..quote(2, "1010") };
    let sooner = bid(2, at(2), Answer::Quote(signed(2, sooner).document().to_owned()));
    assert_eq!(winner(gathered(&[1, 2], vec![offers(1, "1010"), sooner])), Some(did(2)));
    let lowest = [1, 2].into_iter().min_by_key(|n| signed(*n, quote(*n, "1010")).hash()).map(did);
    assert_eq!(winner(gathered(&[1, 2], vec![offers(1, "1010"), offers(2, "1010")])), lowest);
}

/// What the payer says beside its signed messages is not the gateway's to judge, and goes to all who serve the payment.
#[test]
fn what_the_payer_says_of_its_messages_reaches_settlers_winner_and_verifier() {
    let request = r#"{"sender_auth": {"signed_messages": [{"payload": {"order": 12345678901234567890123}}, {}]}}"#;
    let submitted = Submitted { request: request.to_owned(), ..submission() };
    let said: Vec<Payload> = serde_json::from_str(r#"[{"order":12345678901234567890123}]"#).unwrap();
    assert_eq!(request_for_quotes(&submitted).payloads, said);
    // What was asked for in a batch was nobody's payment yet.
    let collected = CollectedQuote { quote_request_id: QuoteRequestId::derive("p", "q"), quote_id: "quo".to_owned() };
    let of_batch = Submitted { collected_quote: Some(collected), ..submitted.clone() };
    assert_eq!(request_for_quotes(&of_batch).payloads, []);

    let events = [PaymentEvent::Submitted(Box::new(submitted)), auction_closed(), awarded()];
    let Step::Do(action) = next(&given(&events).0, at(12)) else { panic!("an awarded payment has something to do") };
    let Action::SecureDeposit { award, .. } = *action else { panic!("{action:?}") };
    assert_eq!(award.case.payloads, said);
    let until_secured = until_secured().into_iter().skip(1);
    let events: Vec<_> = [events[0].clone()].into_iter().chain(until_secured).collect();
    let Step::Do(action) = next(&given(&events).0, at(20)) else { panic!("a secured payment has something to do") };
    let Action::FollowDelivery { case, .. } = *action else { panic!("{action:?}") };
    assert_eq!(case.payloads, said);
}

#[test]
fn the_most_recent_answer_of_a_settler_counts_and_declines_count_once() {
    let decline = |seconds, reason: &str| bid(1, at(seconds), Answer::Decline(reason.to_owned()));
    let judged =
        judge(&submission(), gathered(&[1], vec![decline(1, "A"), decline(2, "INSUFFICIENT_LIQUIDITY")]), at(10));
    assert_eq!(judged.declines.len(), 1);
    assert_eq!(judged.declines[0].reason, "INSUFFICIENT_LIQUIDITY");
    let judged = judge(&submission(), gathered(&[1], vec![decline(1, "A"), offers(1, "1010")]), at(10));
    assert!(judged.declines.is_empty() && judged.winner.is_some());
}

#[test]
fn free_form_text_of_a_settler_is_never_kept_as_a_reason() {
    for text in ["<script>", "no money", "", &"A".repeat(129)] {
        let judged =
            judge(&submission(), gathered(&[1], vec![bid(1, at(1), Answer::Decline(text.to_owned()))]), at(10));
        assert_eq!(judged.declines[0].reason, "UNSPECIFIED");
    }
}

#[test]
fn late_foreign_and_malformed_bids_are_dropped_and_counted() {
    let late = Bid { received_at: at(11), ..offers(1, "1000") };
    let foreign = offers(3, "1000");
    let malformed = bid(2, at(1), Answer::Malformed("not JSON".to_owned()));
    let judged = judge(&submission(), gathered(&[1, 2], vec![late, foreign, malformed]), at(10));
    assert_eq!(judged.dropped.len(), 3);
    assert_eq!(judged.winner, None);
}

#[test]
fn a_bid_at_the_quote_deadline_itself_counts() {
    let last = Bid { received_at: at(10), ..offers(1, "1000") };
    assert_eq!(winner(gathered(&[1], vec![last])), Some(did(1)));
}

/// The selector has until `answer_by`, and what it chooses then has to be valid still.
#[test]
fn a_selector_is_shown_the_quotes_that_last_until_it_has_to_answer() {
    let selector = SelectorRef { key: SelectorSigner::Ed25519(settler(100)).key(), answer_by: at(20) };
    let submitted = Submitted { selector: Some(selector), ..submission() };
    let lasting = |n: u8, until: i64| {
        let quote = Quote { valid_until: at(until), ..quote(n, "1010") };
        bid(n, at(2), Answer::Quote(signed(n, quote).document().to_owned()))
    };
    let judged = judge(&submitted, gathered(&[1, 2, 3], vec![lasting(1, 19), lasting(2, 20), lasting(3, 21)]), at(10));
    let mut offered: Vec<_> = judged.offered.iter().map(|signed| signed.quote().settler.clone()).collect();
    offered.sort();
    let mut expected = [did(2), did(3)];
    expected.sort();
    assert_eq!((offered.as_slice(), judged.dropped.len()), (expected.as_slice(), 1));
}

/// The next quote in turn is one whose validity and promise are both not over, by its own record.
#[test]
fn the_next_quote_is_one_that_can_still_be_awarded() {
    let soon = |n: u8, valid: i64, by: i64| {
        let quote = Quote { valid_until: at(valid), fulfill_by: at(by), ..quote(n, &format!("100{n}")) };
        bid(n, at(2), Answer::Quote(signed(n, quote).document().to_owned()))
    };
    let bids = vec![soon(1, 30, 60), soon(2, 13, 60), soon(3, 30, 15), soon(4, 30, 60)];
    let judged = judge(&submission(), gathered(&[1, 2, 3, 4], bids), at(10));
    let next = |seconds: i64| {
        let next = next_alternate(&judged.alternates, &judged.quotes, at(seconds))?;
        judged.quotes.iter().find(|quote| quote.quote_hash == next.quote_hash).map(|quote| quote.settler.clone())
    };
    // A quote is awarded with two seconds to spare.
    assert_eq!([11, 12, 13, 14, 28, 29].map(next), [2, 3, 3, 4, 4, 0].map(|n| (n > 0).then(|| did(n))));
}

#[test]
fn a_quote_of_another_settler_under_my_token_is_dropped() {
    let stolen = bid(1, at(1), Answer::Quote(signed(2, quote(2, "1000")).document().to_owned()));
    let judged = judge(&submission(), gathered(&[1, 2], vec![stolen]), at(10));
    assert_eq!(judged.winner, None);
    assert_eq!(judged.dropped.len(), 1);
}

#[test]
fn every_rule_of_a_quote_is_checked() {
    let broken: Vec<(&str, Quote)> = vec![
        ("auction", Quote { auction_id: "pay_other".to_owned(), ..quote(1, "1010") }),
        ("terms", Quote { terms_hash: events::Hash32([9; 32]), ..quote(1, "1010") }),
        ("source chain", Quote { source_chain: events::ChainId::evm(2), ..quote(1, "1010") }),
        ("permitted", Quote { source_amount: amount("1101"), ..quote(1, "1010") }),
        ("escrow", Quote { escrow_contract: PAYER.parse().unwrap(), ..quote(1, "1010") }),
        ("payout", Quote { payout_account: "11111111111111111111111111111112".parse().unwrap(), ..quote(1, "1010") }),
        ("payout account is the escrow", Quote { payout_account: submission().escrow.contract, ..quote(1, "1010") }),
        ("destination", Quote { destination: owned("eip155:11/slip44:60"), ..quote(1, "1010") }),
        ("exact amount", Quote { fulfillment_amount: amount("999"), ..quote(1, "1010") }),
        ("proxy", Quote { fulfillment_proxy: PAYER.parse().unwrap(), ..quote(1, "1010") }),
        (
            "delivery account",
            Quote { delivery_account: "11111111111111111111111111111112".parse().unwrap(), ..quote(1, "1010") },
        ),
        ("after the fulfillment", Quote { fulfill_by: at(61), ..quote(1, "1010") }),
        ("before the auction", Quote { fulfill_by: at(10), ..quote(1, "1010") }),
        ("lapses", Quote { valid_until: at(11), ..quote(1, "1010") }),
    ];
    for (rule, quote) in broken {
        let bid = bid(1, at(1), Answer::Quote(signed(1, quote).document().to_owned()));
        let judged = judge(&submission(), gathered(&[1], vec![bid]), at(10));
        assert_eq!(judged.winner, None, "{rule}");
        assert!(judged.dropped[0].reason.contains(rule), "{rule}: {}", judged.dropped[0].reason);
    }
}

#[test]
fn a_contract_of_another_family_is_not_taken_even_where_the_request_names_it() {
    let foreign: Account = "11111111111111111111111111111112".parse().unwrap();
    let escrow_plan = EscrowPlan { contract: foreign.clone(), ..submission().escrow };
    let proxies = vec![foreign.clone(); submission().fulfillment_proxies.len()];
    let asked = [
        ("escrow contract differs", Submitted { escrow: escrow_plan, ..submission() }),
        ("fulfillment proxy differs", Submitted { fulfillment_proxies: proxies, ..submission() }),
    ];
    for (rule, submitted) in asked {
        let quote = Quote {
            escrow_contract: submitted.escrow.contract.clone(),
            fulfillment_proxy: submitted.fulfillment_proxies[0].clone(),
            ..quote(1, "1010")
        };
        let bid = bid(1, at(1), Answer::Quote(signed(1, quote).document().to_owned()));
        let judged = judge(&submitted, gathered(&[1], vec![bid]), at(10));
        assert_eq!((judged.winner, judged.dropped[0].reason.as_str()), (None, rule));
    }
}

#[test]
fn a_quote_counts_that_can_be_awarded_when_the_auction_closes() {
    // Early, when all have answered: what is valid beyond the quote deadline is the settler's to say.
    let brief = Quote { valid_until: at(8), ..quote(1, "1010") };
    let bids = || vec![bid(1, at(1), Answer::Quote(signed(1, brief.clone()).document().to_owned()))];
    for (closes, wins) in [(6, true), (7, false), (10, false)] {
        let judged = judge(&submission(), gathered(&[1], bids()), at(closes));
        assert_eq!(judged.winner.is_some(), wins, "closed at {closes}");
    }
}

#[test]
fn lists_decide_who_may_win() {
    let bids = || gathered(&[1, 2], vec![offers(1, "1000"), offers(2, "1001")]);
    let listed = |whitelist: &[u8], blacklist: &[u8]| {
        let mut submitted = submission();
        submitted.whitelist = whitelist.iter().map(|n| did(*n)).collect();
        submitted.blacklist = blacklist.iter().map(|n| did(*n)).collect();
        judge(&submitted, bids(), at(10)).winner.map(|signed| signed.quote().settler.clone())
    };
    assert_eq!(listed(&[], &[]), Some(did(1)));
    assert_eq!(listed(&[2], &[]), Some(did(2)));
    assert_eq!(listed(&[], &[1]), Some(did(2)));
    assert_eq!(listed(&[1, 2], &[1]), Some(did(2)));
    assert_eq!(listed(&[3], &[]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Replicas that see the same bids in another order pick the same winner.
    #[test]
    fn the_winner_does_not_depend_on_the_order_of_arrival(
        prices in prop::collection::vec(1000u32..1004, 4),
        order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(),
    ) {
        let bids: Vec<Bid> = (1u8..).zip(&prices).map(|(n, price)| offers(n, &price.to_string())).collect();
        let shuffled = order.iter().map(|i| bids[*i].clone()).collect();
        let all = [1, 2, 3, 4];
        let one = judge(&submission(), gathered(&all, bids), at(10));
        let two = judge(&submission(), gathered(&all, shuffled), at(10));
        prop_assert_eq!(one.winner, two.winner);
        prop_assert_eq!(one.quotes, two.quotes);
    }
}

#[test]
fn a_required_policy_is_held_by_evidence_that_lasts_until_the_quotes_are_in() {
    let requiring = Submitted { required_policies: vec!["kyc".to_owned(), "licence".to_owned()], ..submission() };
    let held = |n: u8, policy: &str, expires: Option<i64>| HeldPolicy {
        settler: did(n),
        policy: policy.to_owned(),
        issuer: did(9),
        credential_hash: events::Hash32([7; 32]),
        expires: expires.map(at),
    };
    let judged = |held: Vec<HeldPolicy>| {
        let bids = vec![offers(1, "1009"), offers(2, "1010")];
        judge(&requiring, Gathered { held, ..gathered(&[1, 2], bids) }, at(10))
    };
    let both = |n| vec![held(n, "kyc", None), held(n, "licence", Some(11))];
    let judgement = judged(both(2));
    assert_eq!(judgement.winner.unwrap().quote().settler, did(2));
    assert_eq!(judgement.held_policies, both(2));
    assert_eq!(judgement.dropped[0].reason, "settler has no credential for the required policy kyc");
    // The cheaper one wins when it holds them too.
    assert_eq!(judged([both(1), both(2)].concat()).winner.unwrap().quote().settler, did(1));
    for short in [
        Vec::new(),
        vec![held(1, "kyc", None)],
        vec![held(1, "kyc", None), held(2, "licence", None)],
        vec![held(1, "kyc", None), held(1, "licence", Some(10))],
    ] {
        assert!(judged(short.clone()).winner.is_none(), "{short:?}");
    }
}

/// A credential for one policy is none for another, nor is another settler's.
#[test]
fn a_required_policy_is_held_by_the_settlers_own_credential_for_it() {
    let requiring = Submitted { required_policies: vec!["licence".to_owned()], ..submission() };
    for (holder, policy, wins) in [(1, "licence", true), (1, "kyc", false), (2, "licence", false)] {
        let held = HeldPolicy {
            settler: did(holder),
            policy: policy.to_owned(),
            issuer: did(9),
            credential_hash: events::Hash32([7; 32]),
            expires: None,
        };
        let judged =
            judge(&requiring, Gathered { held: vec![held], ..gathered(&[1], vec![offers(1, "1009")]) }, at(10));
        assert_eq!(judged.winner.is_some(), wins, "settler {holder} holds {policy}");
    }
}
