//! Reassignment: how a payment is shown whose settler did not deliver, and for which another does, or nobody (ADR 148).

use std::{sync::Arc, time::Duration};

use tempfile::TempDir;

use events::{
    ChainId, Hash32, PaymentEvent, PaymentId,
    event::{AwardLapsed, QuoteAwarded, RefundDue},
};
use projections::{AwardedQuote, OpenLeg, OverdueStage, PaymentStatus, PaymentView, Transaction, overdue};

use crate::support::*;

const GRACE: Duration = Duration::from_secs(30);
const FIRST: Hash32 = Hash32([3; 32]);
const SECOND: Hash32 = Hash32([4; 32]);

fn id() -> PaymentId {
    PaymentId::derive("payer", "order-1")
}

/// The view after these events, each a commit, behind the submission.
fn view(events: Vec<PaymentEvent>) -> PaymentView {
    PaymentView::fold(&history(id(), commits(events))).unwrap()
}

fn commits(events: Vec<PaymentEvent>) -> Vec<Vec<PaymentEvent>> {
    [submitted(&id())].into_iter().chain(events).map(|event| vec![event]).collect()
}

fn in_escrow() -> Vec<PaymentEvent> {
    vec![auction_closed(&["a"], &[]), awarded(), deposit_prepared(1, hash(0x11)), secured(hash(0x11), 20)]
}

fn lapsed() -> Vec<PaymentEvent> {
    [in_escrow(), vec![reservation_lapsed("a", FIRST, 30)]].concat()
}

fn awarded_to_second() -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: "quo_second".to_owned(),
        quote_hash: SECOND,
        document: r#"{"type":"GatewayQuote","n":2}"#.to_owned(),
        awarded_at: at(32),
    }))
}

fn reawarded() -> Vec<PaymentEvent> {
    [lapsed(), vec![auction_closed(&["b", "c"], &[("c", "BUSY")]), awarded_to_second()]].concat()
}

fn reassigned_to_second() -> Vec<PaymentEvent> {
    [reawarded(), vec![reassignment_prepared(1, hash(0x44)), reassigned(hash(0x44), 40)]].concat()
}

fn on_source(transaction_hash: String, block_number: Option<u64>) -> Option<Transaction> {
    Some(Transaction { chain_id: ChainId::evm(1), transaction_hash, block_number })
}

fn quote_of(view: &PaymentView) -> Option<Hash32> {
    view.quote.as_ref().map(|quote| quote.quote_hash)
}

#[test]
fn a_delivery_that_was_seen_and_is_gone_is_shown_no_more_and_the_payment_waits_for_another_settler() {
    let finalizing = [in_escrow(), vec![seen(hash(0x22), 25)]].concat();
    assert_eq!(view(finalizing.clone()).status, PaymentStatus::Finalizing);
    let back = view([finalizing, vec![reservation_lapsed("a", FIRST, 30)]].concat());
    assert_eq!((back.status, &back.fulfillment, back.at_rest), (PaymentStatus::Pending, &None, false));
    assert_eq!((back.updated_at, OpenLeg::of(&back)), (at(7), OpenLeg::Reassignment));
    // The money stays where it is, and the quote is shown for which it is there.
    assert_eq!((back.escrowed, quote_of(&back)), (Some(amount(105)), Some(FIRST)));
    assert_eq!(back.deposit, on_source(hash(0x11), Some(20)));
    // Without a delivery nothing that is shown has changed.
    let plain = view(lapsed());
    assert_eq!((plain.status, plain.updated_at), (PaymentStatus::Pending, at(5)));
}

#[test]
fn the_settler_that_takes_its_place_is_shown_and_delivers() {
    let won = view(reawarded());
    assert_eq!((quote_of(&won), won.requested_count), (Some(SECOND), Some(2)));
    assert_eq!((won.reassignment.clone(), OpenLeg::of(&won)), (None, OpenLeg::Reassignment));
    let sent = [reawarded(), vec![reassignment_prepared(1, hash(0x43))]].concat();
    assert_eq!(view(sent.clone()).reassignment, on_source(hash(0x43), None));
    let again = [sent, vec![reassignment_repriced(1, hash(0x44)), reassignment_abandoned(1)]].concat();
    let again = [again, vec![reassignment_prepared(2, hash(0x45))]].concat();
    assert_eq!(view(again.clone()).reassignment, on_source(hash(0x45), None));
    // Any of them may be the one that landed.
    let there = view([again, vec![reassigned(hash(0x44), 40)]].concat());
    assert_eq!(there.reassignment, on_source(hash(0x44), Some(40)));
    assert_eq!((OpenLeg::of(&there), &there.reopened), (OpenLeg::Delivery, &None));
    assert_eq!((there.status, there.deposit), (PaymentStatus::Pending, on_source(hash(0x11), Some(20))));

    let delivered = view([reassigned_to_second(), vec![seen(hash(0x22), 45), confirmed(hash(0x22), 46)]].concat());
    assert_eq!((delivered.status, quote_of(&delivered)), (PaymentStatus::Completed, Some(SECOND)));
    // The receipt names the payer's deposit, which is what it paid by.
    assert_eq!(delivered.confirmation().unwrap().source.transaction_hash, hash(0x11));
}

#[test]
fn where_nobody_takes_its_place_the_payment_fails_with_the_quote_that_the_escrow_is_reserved_for() {
    let refund = || failed(RefundDue::ByNonDelivery { attestation: "0x02".to_owned() }, None);
    let award_lapsed = PaymentEvent::AwardLapsed(AwardLapsed {
        settler: did("b"),
        quote_hash: SECOND,
        refusal: None,
        lapsed_at: at(34),
    });
    for events in [
        [lapsed(), vec![auction_closed(&[], &[]), refund()]].concat(),
        [reawarded(), vec![award_lapsed, refund()]].concat(),
        [reawarded(), vec![reassignment_prepared(1, hash(0x44)), refund()]].concat(),
    ] {
        let failed = view(events.clone());
        assert_eq!((failed.status, quote_of(&failed)), (PaymentStatus::Failed, Some(FIRST)));
        assert_eq!((&failed.reopened, failed.at_rest), (&None, false));
        assert!(!failed.refund_owed.as_ref().unwrap().after_window, "it is cancelled at once");
        assert_eq!(OpenLeg::of(&failed), OpenLeg::Refund);
        let returned = view([events, vec![refunded(hash(0x33), 70)]].concat());
        assert!(returned.at_rest);
    }
    // A settler that took its place and did not deliver either is the one that is shown.
    let second = view([reassigned_to_second(), vec![refund()]].concat());
    assert_eq!(quote_of(&second), Some(SECOND));
    let quote = AwardedQuote {
        quote_id: "quo_second".to_owned(),
        quote_hash: SECOND,
        document: r#"{"type":"GatewayQuote","n":2}"#.to_owned(),
    };
    let twice = view([reassigned_to_second(), vec![reservation_lapsed("b", SECOND, 60)]].concat());
    assert_eq!(twice.reopened.as_ref().unwrap().quote, Some(quote));
    assert_eq!(twice.lapsed.iter().map(|lapsed| lapsed.quote_hash).collect::<Vec<_>>(), [FIRST, SECOND]);
}

/// The time for the delivery is until second 100.
#[test]
fn an_escrow_that_is_not_reassigned_for_long_is_overdue_and_one_that_is_has_its_whole_time() {
    let at_second = |events: Vec<PaymentEvent>, second| overdue(&view(events), 0, at(second), GRACE);
    for events in [lapsed(), reawarded()] {
        assert_eq!(at_second(events.clone(), 60), None);
        let found = at_second(events, 61).unwrap();
        assert_eq!((found.stage, found.since, found.amount), (OverdueStage::Unreassigned, at(30), amount(105)));
        assert_eq!(found.transaction, on_source(hash(0x11), Some(20)));
    }
    let sent = at_second([reawarded(), vec![reassignment_prepared(1, hash(0x44))]].concat(), 61).unwrap();
    assert_eq!(sent.transaction, on_source(hash(0x44), None));
    assert!(sent.waits_for.starts_with("the escrow to be reassigned"), "{}", sent.waits_for);
    assert_eq!(at_second(reassigned_to_second(), 130), None);
    let found = at_second(reassigned_to_second(), 131).unwrap();
    assert_eq!((found.stage, found.since), (OverdueStage::Undelivered, at(100)));
    assert_eq!(found.transaction, on_source(hash(0x44), Some(40)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_found_by_the_quotes_of_all_its_settlers_and_by_its_reassignment() {
    let (directory, journal) = (TempDir::new().unwrap(), Arc::new(Streams::new(1)));
    for commit in commits(reassigned_to_second()) {
        journal.push(id(), commit);
    }
    let following = Following::start(directory.path(), &journal).await;
    let (first, second) = (FIRST.to_string(), SECOND.to_string());
    for text in [&first, &second, "quo_second", &hash(0x44), &hash(0x11), "quo_1x"] {
        let found = following.projections.search(text, 10).unwrap().payments;
        assert_eq!(found.len(), usize::from(text != "quo_1x"), "{text}");
    }
    following.rebuilds_the_same().await;
    following.stop().await;
}
