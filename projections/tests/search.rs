//! Search: by every text that names a payment, as it stands, and no further than its bounds.

use std::sync::Arc;

use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, TestRunner},
};
use tempfile::TempDir;

use events::{
    ChainId, Hash32, OwnedAsset, PaymentEvent, PaymentId, QuoteRequestId, Terms,
    event::{CollectedQuote, Submitted},
};
use projections::{PaymentView, Place, SEARCH_LOOKS_MAX};

use crate::support::*;

const SHARDS: u16 = 4;
const ALICE: &str = "0x90f79bf6eb2c4f870365e785982e1f101e93b906";
const SHOP: &str = "did:example:Shop";
const SIGNATURE: &str = "5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW";

fn id(number: u64) -> PaymentId {
    PaymentId::derive("search", &number.to_string())
}

fn hash_of(number: u64) -> String {
    Hash32::sha256(number.to_be_bytes()).to_string()
}

fn submission(number: u64, change: impl FnOnce(&mut Submitted)) -> PaymentEvent {
    let PaymentEvent::Submitted(mut plain) = submitted(&id(number)) else { unreachable!() };
    (plain.request_id, plain.submitted_at) = (format!("order-{number}"), at(number));
    change(&mut plain);
    PaymentEvent::Submitted(plain)
}

/// The numbers of the payments that are found, as their times say.
fn found(following: &Following, text: &str) -> Vec<u64> {
    let page = following.projections.search(text, 100).unwrap();
    assert_eq!((&page.next, page.uncertain.len()), (&None, 0), "{text}");
    page.payments.iter().map(|(_, view)| Place::of(view).submitted_ms / 1_000 - 1_800_000_000).collect()
}

/// A payment of each kind, among others.
fn fill(journal: &Streams) {
    for number in 100..130 {
        journal.push(id(number), vec![submission(number, |_| {})]);
    }
    journal.push(id(1), vec![submission(1, |plain| plain.request_id = "Invoice_2026-11".to_owned())]);
    for events in all_commits(&id(1)).into_iter().skip(1) {
        journal.push(id(1), events);
    }
    let of_alice = |plain: &mut Submitted| {
        let source = OwnedAsset::new(plain.terms.source.asset().clone(), ALICE).unwrap();
        let destinations = plain.terms.destination().to_vec();
        plain.terms = Terms::new(source, destinations, plain.terms.fulfillment_amount, None);
        plain.originator = SHOP.to_owned();
        plain.request_id = "ab12".to_owned();
    };
    journal.push(id(2), vec![submission(2, of_alice)]);
    let quote_request_id = QuoteRequestId::derive("search", "batch");
    let of_batch = |plain: &mut Submitted| {
        plain.collected_quote = Some(CollectedQuote { quote_request_id, quote_id: "quo_1".to_owned() });
    };
    journal.push(id(3), vec![submission(3, of_batch)]);
    let PaymentEvent::Submitted(own_deposit) = payer_deposit_submitted(&id(4)) else { unreachable!() };
    journal.push(id(4), vec![submission(4, |plain| plain.authorization = own_deposit.authorization)]);
    journal.push(id(5), vec![submission(5, |_| {})]);
    let mut delivery = inclusion(10, SIGNATURE.to_owned(), 30);
    delivery.chain_id = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp".parse::<ChainId>().unwrap();
    let seen = events::event::FulfillmentSeen { inclusion: delivery };
    journal.push(id(5), vec![PaymentEvent::FulfillmentSeen(seen)]);
    journal.push(id(5), vec![refund_prepared(1, hash(0x99))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_found_by_each_of_its_texts() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let following = Following::start(directory.path(), &journal).await;
    let (payment_id, batch) = (id(1), QuoteRequestId::derive("search", "batch"));
    let (whole, digest) = (payment_id.as_str(), &payment_id.as_str()[4..]);
    let named = |number: u64| -> Vec<u64> { vec![number] };
    let deposit = hash(0x11);
    for (text, expected) in [
        // The payment's id, whole, in part, without its prefix, in capitals.
        (whole, named(1)),
        (&whole[..10], named(1)),
        (digest, named(1)),
        (&digest.to_uppercase(), named(1)),
        (&digest[..6], named(1)),
        (&format!("{whole}a"), vec![]),
        // The request id.
        ("Invoice_2026-11", named(1)),
        ("invoice_2026-11", named(1)),
        ("  Invoice", named(1)),
        ("Invoice_2026-12", vec![]),
        ("order-100", named(100)),
        ("order-12", (120..130).rev().collect()),
        // The deposit, which is another's own; the delivery, the release, and the refund.
        (&deposit, vec![4, 1]),
        (&deposit[2..], vec![4, 1]),
        (&deposit.to_uppercase(), vec![4, 1]),
        (&deposit[..8], vec![4, 1]),
        (&deposit[2..8], vec![4, 1]),
        (&format!("{deposit}1"), vec![]),
        (&hash(0x22), named(1)),
        (&hash(0x77), named(1)),
        (&hash(0x99), named(5)),
        // A signature in Base58.
        (SIGNATURE, named(5)),
        (&SIGNATURE[..6], named(5)),
        (&SIGNATURE.to_lowercase(), vec![]),
        // The quote's hash, and its id, which is too short.
        (&Hash32([3; 32]).to_string(), named(1)),
        ("quo_1", vec![]),
        // The batch.
        (batch.as_str(), named(3)),
        (&batch.as_str()[4..], named(3)),
        (&batch.as_str()[..10], named(3)),
        // Owners.
        (ALICE, named(2)),
        ("0x90F79bf6EB2c4f870365E785982E1f101E93b906", named(2)),
        (&format!("eip155:{ALICE}"), named(2)),
        (&format!("eip155:10:{ALICE}"), named(2)),
        (SHOP, named(2)),
        ("did:example:shop", vec![]),
        (&ALICE[..30], vec![]),
        // Nothing that is there.
        (&hash(0x88), vec![]),
        ("order-100-", vec![]),
        ("\u{e4}\u{f6}\u{fc}\u{df}\u{20ac}\u{1f4b6}", vec![]),
    ] {
        assert_eq!(found(&following, text), expected, "{text}");
    }
    following.rebuilds_the_same().await;
    assert_eq!(found(&following, &deposit), [4, 1]);
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_of_fewer_than_six_characters_finds_nothing() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let following = Following::start(directory.path(), &journal).await;
    let payment_id = id(1);
    let digest = &payment_id.as_str()[4..];
    for text in
        ["", "      ", "order", "ab12", &digest[..5], &format!("pay_{}", &digest[..5]), "0x11111", "11111", "0x"]
    {
        assert_eq!(found(&following, text), Vec::<u64>::new(), "{text}");
    }
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_replaced_is_not_found_any_more() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    journal.push(id(9), vec![submission(9, |_| {})]);
    journal.push(id(9), vec![deposit_prepared(1, hash_of(1))]);
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(found(&following, &hash_of(1)), [9]);
    for attempt in 2..5 {
        journal.push(id(9), vec![deposit_repriced(1, hash_of(attempt))]);
        following.caught_up().await;
        assert_eq!(found(&following, &hash_of(attempt)), [9]);
        assert_eq!(found(&following, &hash_of(attempt - 1)), Vec::<u64>::new());
    }
    // Its other texts stay.
    assert_eq!(found(&following, "order-9"), [9]);
    // What went from one stage to another is found as long as either has it.
    journal.push(id(9), vec![refund_prepared(1, hash_of(4))]);
    journal.push(id(9), vec![deposit_repriced(1, hash_of(5))]);
    following.caught_up().await;
    assert_eq!((found(&following, &hash_of(4)), found(&following, &hash_of(5))), (vec![9], vec![9]));
    journal.push(id(9), vec![refund_repriced(1, hash_of(6))]);
    following.caught_up().await;
    assert_eq!(found(&following, &hash_of(4)), Vec::<u64>::new());
    // What was written step by step is what is written at once, and passes the check of the next start.
    following.rebuilds_the_same().await;
    following.stop().await;
    let reads = journal.replays_from_the_start();
    let following = Following::start(directory.path(), &journal).await;
    assert_eq!(journal.replays_from_the_start(), reads);
    assert_eq!(found(&following, &hash_of(5)), [9]);
    following.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_is_asked_for_is_said_and_the_newest_are_shown() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    let following = Following::start(directory.path(), &journal).await;
    let page = following.projections.search("order-1", 7).unwrap();
    let numbers: Vec<_> = page.payments.iter().map(|(_, view)| view.request_id.clone()).collect();
    assert_eq!(numbers, (123..130).rev().map(|number| format!("order-{number}")).collect::<Vec<_>>());
    assert!(page.next.is_some());
    let page = following.projections.search("order-1", 30).unwrap();
    assert_eq!((page.payments.len(), page.next), (30, None));
    following.stop().await;
}

/// Where nobody searches there is no index for it. It is built when somebody is to, and is gone again afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn the_index_for_search_is_kept_where_it_is_wanted() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    fill(&journal);
    for searched in [false, true, true, false] {
        let following = match searched {
            true => Following::start(directory.path(), &journal).await,
            false => Following::unsearched(directory.path(), &journal).await,
        };
        assert_eq!(found(&following, "order-12").len(), if searched { 10 } else { 0 });
        assert_eq!(found(&following, id(110).as_str()), [110], "views need no index");
        following.rebuilds_the_same().await;
        following.stop().await;
    }
    let reads = journal.replays_from_the_start();
    Following::unsearched(directory.path(), &journal).await.stop().await;
    assert_eq!(journal.replays_from_the_start(), reads, "what is as it was is not built again");
}

/// Somebody makes 10,000 payments whose request ids are, or begin with, what names the payment of another.
#[tokio::test(flavor = "multi_thread")]
async fn chosen_request_ids_neither_hide_a_payment_nor_make_a_search_long() {
    const PAYMENTS: u64 = 10_000;
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    let (victim, deposit) = (id(1), hash_of(1)[2..].to_owned());
    journal.push(&victim, vec![submission(1, |plain| plain.request_id = "invoice".to_owned())]);
    journal.push(&victim, vec![deposit_prepared(1, hash_of(1))]);
    for number in 10..10 + PAYMENTS {
        let request_id = match number % 3 {
            0 => deposit.clone(),
            1 => victim.as_str().to_owned(),
            _ => format!("invoice{number}"),
        };
        journal.push(id(number), vec![submission(number, |plain| plain.request_id = request_id)]);
    }
    let following = Following::start(directory.path(), &journal).await;
    // Asked for whole, a long one is found among as many that begin like it.
    let long = format!("{}true", "z".repeat(100));
    let hidden = id(2);
    journal.push(&hidden, vec![submission(2, |plain| plain.request_id = long.clone())]);
    for number in 20_000..20_000 + PAYMENTS {
        let request_id = format!("{}{number}", "z".repeat(100));
        journal.push(id(number), vec![submission(number, |plain| plain.request_id = request_id)]);
    }
    following.caught_up().await;
    let page = following.projections.search(&long, 20).unwrap();
    assert!(page.payments.iter().any(|(_, view)| view.payment_id == hidden));
    assert_eq!(following.projections.search(&long[..90], 20).unwrap().payments.len(), 20);
    for text in [&deposit, victim.as_str(), "invoice", &victim.as_str()[..10], &deposit[..10]] {
        for max in [1, 20] {
            let page = following.projections.search(text, max).unwrap();
            assert!(page.looked_at <= SEARCH_LOOKS_MAX, "{} for {text}", page.looked_at);
            assert!(page.payments.iter().any(|(_, view)| view.payment_id == victim), "{text}");
            assert_eq!(page.payments.len(), max, "{text}");
            assert!(page.next.is_some(), "{text}");
        }
    }
    following.stop().await;
}

/// The texts by which a payment is found, in the form in which its view has them.
fn texts(view: &PaymentView) -> Vec<String> {
    let shown = [&view.deposit, &view.reservation, &view.reassignment, &view.fulfillment, &view.release, &view.refund];
    let hashes = shown.into_iter().flatten().map(|transaction| transaction.transaction_hash.clone());
    let ids = [view.payment_id.as_str().to_owned(), view.request_id.clone()];
    ids.into_iter().chain(hashes).collect()
}

/// Whatever is the beginning of a text of a payment finds all payments that a look at each of them finds.
#[test]
fn any_beginning_of_a_text_finds_what_a_look_at_all_finds() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(SHARDS)));
    for number in 0..80 {
        // Some differ behind what keys hold of a text, and in capitals.
        let tail = "x".repeat(usize::try_from(number % 5).unwrap() * 30);
        let request_id = format!("{}-{tail}{number}", ["Order", "order", "orders"][number as usize % 3]);
        journal.push(id(number), vec![submission(number, |plain| plain.request_id = request_id)]);
        for (step, events) in
            [deposit_prepared(1, hash_of(number / 2)), refund_prepared(1, hash_of(number + 1))].into_iter().enumerate()
        {
            if number as usize % 3 >= step {
                journal.push(id(number), vec![events]);
            }
        }
    }
    let following = runtime.block_on(Following::start(directory.path(), &journal));
    let views: Vec<PaymentView> =
        (0..80).rev().filter_map(|number| PaymentView::fold(&journal.commits_of(id(number)))).collect();
    let asked = (any::<Index>(), any::<Index>(), 6..70usize, any::<bool>());
    let mut runner = TestRunner::new(Config { cases: 256, failure_persistence: None, ..Config::default() });
    let run = runner.run(&asked, |(of, text, length, capitals)| {
        let texts_of = texts(of.get(&views));
        let text = text.get(&texts_of);
        let text = &text[..length.min(text.len()).max(10.min(text.len()))];
        let text = if capitals { text.to_uppercase() } else { text.to_owned() };
        let begins = |own: &String| own.to_lowercase().starts_with(&text.to_lowercase());
        let expected: Vec<u64> = views
            .iter()
            .filter(|view| texts(view).iter().any(begins))
            .map(|view| Place::of(view).submitted_ms / 1_000 - 1_800_000_000)
            .collect();
        prop_assert!(!expected.is_empty());
        prop_assert_eq!(found(&following, &text), expected, "{}", text);
        Ok(())
    });
    runtime.block_on(following.stop());
    run.unwrap();
}
