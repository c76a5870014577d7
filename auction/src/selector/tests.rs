//! Tests of the selector: its choices, and the requests that it refuses.

use chrono::TimeDelta;
use ed25519_dalek::SigningKey;
use proptest::prelude::*;

use config::SelectorRule;
use events::{
    Amount, ChainId, Did, Hash32, OwnedAsset, Terms,
    quote::{Quote, SignedQuote},
    selection::{SelectorSigner, Shown, SignedChoice},
    time::{Timestamp, from_unix_seconds},
};
use protocol::{Version, selection::SelectionRequest};

use super::{
    rule::{TAKES_TOO_LONG, choose},
    service::{Refused, answer},
};

const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";

/// Quotes are collected until 0.
fn at(seconds: i64) -> Timestamp {
    from_unix_seconds(1_800_000_000).unwrap() + TimeDelta::seconds(seconds)
}

fn terms() -> Terms {
    let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), ACCOUNT).unwrap();
    let amount = "1000".parse().unwrap();
    Terms::new(owned("eip155:1/slip44:60"), vec![owned("eip155:10/slip44:60")], amount, None)
}

/// A quote of settler `n` over `price`, with delivery promised at `fulfill_by`.
fn quote(n: u8, price: Amount, fulfill_by: i64) -> SignedQuote {
    let key = SigningKey::from_bytes(&[n; 32]);
    let terms = terms();
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: "pay_a".to_owned(),
        terms_hash: terms.hash(),
        settler: Did::from_ed25519(&key.verifying_key()),
        source_chain: ChainId::evm(1),
        source_amount: price,
        payout_account: ACCOUNT.parse().unwrap(),
        escrow_contract: ACCOUNT.parse().unwrap(),
        destination: terms.destination()[0].clone(),
        fulfillment_amount: terms.fulfillment_amount,
        delivery_account: ACCOUNT.parse().unwrap(),
        fulfillment_proxy: ACCOUNT.parse().unwrap(),
        fulfill_by: at(fulfill_by),
        valid_until: at(30),
    };
    quote.sign(&key, at(-5)).unwrap()
}

fn offer(n: u8, price: &str, fulfill_by: i64) -> SignedQuote {
    quote(n, price.parse().unwrap(), fulfill_by)
}

fn request(quotes: &[SignedQuote]) -> SelectionRequest {
    SelectionRequest {
        version: Version,
        auction_id: "pay_a".to_owned(),
        terms_hash: terms().hash(),
        terms: terms(),
        quote_deadline: at(0),
        answer_by: at(5),
        quotes: quotes.iter().map(|quote| quote.document().to_owned()).collect(),
    }
}

fn signer() -> SelectorSigner {
    SelectorSigner::Ed25519(SigningKey::from_bytes(&[100; 32]))
}

fn ask(
    request: &SelectionRequest,
    rule: SelectorRule,
    delivery_seconds_max: Option<u32>,
) -> Result<SignedChoice, Refused> {
    answer(&protocol::write(request), &signer(), rule, delivery_seconds_max).map(SignedChoice::from)
}

#[test]
fn each_rule_takes_its_best_whatever_the_order() {
    let quotes = [offer(1, "1000", 60), offer(2, "1010", 40), offer(3, "1050", 10)];
    let hashes: Vec<Hash32> = quotes.iter().map(SignedQuote::hash).collect();
    for (rule, best) in [
        (SelectorRule::Cheapest, 0),
        (SelectorRule::Fastest, 2),
        (SelectorRule::Weighed { second_costs_bps: 0 }, 0),
        // At 60, 40 and 10 seconds: 1000 + 30, 1010 + 18, 1050 + 0.
        (SelectorRule::Weighed { second_costs_bps: 6 }, 1),
        (SelectorRule::Weighed { second_costs_bps: 100 }, 2),
    ] {
        for turned in 0..quotes.len() {
            let mut quotes = quotes.clone();
            quotes.rotate_left(turned);
            let shown = Shown { auction_id: "pay_a", terms_hash: terms().hash(), quotes: &hashes };
            let choice = ask(&request(&quotes), rule, None).unwrap().verify(&signer().key(), shown).unwrap();
            assert_eq!(choice.quote_hash, Some(hashes[best]), "{rule:?}");
        }
    }
}

#[test]
fn promises_beyond_the_bound_are_not_taken_and_none_may_be_left() {
    let quotes = [offer(1, "1000", 60), offer(2, "1010", 40)];
    let hashes = quotes.clone().map(|quote| quote.hash());
    let shown = Shown { auction_id: "pay_a", terms_hash: terms().hash(), quotes: &hashes };
    let chosen = |seconds| {
        let choice = ask(&request(&quotes), SelectorRule::Cheapest, Some(seconds)).unwrap();
        let choice = choice.verify(&signer().key(), shown).unwrap();
        (choice.quote_hash, choice.reason)
    };
    assert_eq!(chosen(60), (Some(hashes[0]), None));
    assert_eq!(chosen(59), (Some(hashes[1]), None));
    assert_eq!(chosen(39), (None, Some(TAKES_TOO_LONG.to_owned())));
}

#[test]
fn the_same_request_gets_the_same_answer() {
    let request = request(&[offer(1, "1000", 60), offer(2, "1000", 60)]);
    assert_eq!(
        ask(&request, SelectorRule::Fastest, None).unwrap(),
        ask(&request, SelectorRule::Fastest, None).unwrap()
    );
}

#[test]
fn what_no_gateway_would_show_gets_no_answer() {
    let good = request(&[offer(1, "1000", 60)]);
    let refused = |request: &SelectionRequest| ask(request, SelectorRule::Cheapest, None).unwrap_err().to_string();
    let other = SelectionRequest { auction_id: "pay_b".to_owned(), ..good.clone() };
    assert!(refused(&other).contains("another auction"), "{}", refused(&other));
    let altered = good.quotes[0].replacen("eip155:10/slip44:60", "eip155:11/slip44:60", 1);
    assert_ne!(altered, good.quotes[0]);
    let altered = SelectionRequest { quotes: vec![altered], ..good.clone() };
    assert!(refused(&altered).contains("not valid"), "{}", refused(&altered));
    let empty = SelectionRequest { quotes: Vec::new(), ..good.clone() };
    assert!(refused(&empty).contains("there must be quotes"), "{}", refused(&empty));
    let terms_hash = Hash32([1; 32]);
    let unhashed = SelectionRequest { terms_hash, ..good.clone() };
    assert!(refused(&unhashed).contains("terms_hash"), "{}", refused(&unhashed));
    let garbage = answer(b"{}", &signer(), SelectorRule::Cheapest, None).unwrap_err();
    assert!(matches!(garbage, Refused::Unreadable(_)), "{garbage}");
    let huge = answer(&vec![b' '; 600 * 1024], &signer(), SelectorRule::Cheapest, None).unwrap_err();
    assert!(huge.to_string().contains("too large"), "{huge}");
}

#[test]
fn the_widest_amounts_do_not_overflow() {
    let widest = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
    let quotes = [offer(1, widest, 4_000_000_000), offer(2, widest, 0)];
    let rule = SelectorRule::Weighed { second_costs_bps: u32::MAX };
    assert_eq!(choose(&rule, &quotes, at(0), None), Ok(&quotes[1]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Nothing that is both cheaper and faster than what is chosen was shown.
    #[test]
    fn a_weighed_choice_is_never_beaten_on_both_counts(
        offers in proptest::collection::vec((1u64.., 0i64..4_000_000_000), 1..5),
        second_costs_bps: u32,
    ) {
        let quotes: Vec<_> = offers.iter().map(|(units, by)| offer(1, &units.to_string(), *by)).collect();
        let best = choose(&SelectorRule::Weighed { second_costs_bps }, &quotes, at(0), None).unwrap().quote();
        for other in quotes.iter().map(SignedQuote::quote) {
            let beaten = other.source_amount < best.source_amount && other.fulfill_by < best.fulfill_by;
            prop_assert!(!beaten);
        }
    }
}
