//! Records of settlers of escrows that were reassigned: the miss of the first, and what the next makes of its award (ADR 148).

use super::*;

/// What follows when settler `a`, secured at 20 and promised by 90, does not deliver.
fn lapsed_at(second: u64) -> Vec<PaymentEvent> {
    vec![reservation_lapsed("a", quote_hash("a"), second)]
}

fn nobody_else() -> PaymentEvent {
    failed(RefundDue::ByNonDelivery { attestation: "0x02".to_owned() }, None)
}

fn missed_once(second: u64) -> SettlerRecord {
    SettlerRecord { acknowledged: 1, missed: 1, outcomes: vec![missed_at(second)], ..asked_and_won() }
}

/// An auction of the second round in which `b` wins, and `c` is kept to follow it where `is_followed`.
fn won_by_b(is_followed: bool) -> Vec<PaymentEvent> {
    let PaymentEvent::AuctionClosed(mut closed) = auction(&["b", "c"], &["b", "c"]) else { unreachable!() };
    closed.alternates = is_followed.then(|| kept("c")).into_iter().collect();
    vec![PaymentEvent::AuctionClosed(closed), won("b", 40)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_that_lapses_is_missed_once_whatever_follows() {
    let begun = || vec![vec![secured(hash(0x12), 20)], lapsed_at(35)];
    let to_b = || [begun(), vec![won_by_b(false)]].concat();
    let sent = || [to_b(), vec![vec![reassignment_prepared(1, hash(0x44))]]].concat();
    let nobody = vec![auction(&[], &[]), nobody_else()];
    for behind in [begun(), [begun(), vec![nobody]].concat(), [sent(), vec![vec![nobody_else()]]].concat()] {
        assert_eq!(record_of_a(behind).await, missed_once(35));
    }
    // The second settler was not reserved for, so that it let nobody down.
    let found = records(won_by_a([sent(), vec![vec![nobody_else()]]].concat()), &["b"]).await.remove(0).unwrap();
    assert_eq!((found.won, found.acknowledged, found.missed, found.outcomes.len()), (1, 1, 0, 0));
    // A reservation of which too little time was left is none of those that count.
    let late = vec![vec![secured(hash(0x12), 51)], lapsed_at(91)];
    assert_eq!(record_of_a(late).await, SettlerRecord { outcomes: Vec::new(), ..missed_once(91) });
}

/// Reassigned at 45 and promised by 90.
#[tokio::test(flavor = "multi_thread")]
async fn the_settler_that_takes_its_place_has_a_record_of_its_own() {
    let begun = [vec![vec![secured(hash(0x12), 20)], lapsed_at(35)], vec![won_by_b(false)]].concat();
    let to_b = |behind: Vec<Vec<PaymentEvent>>| won_by_a([begun.clone(), behind].concat());
    let on_chain = || vec![reassigned(hash(0x44), 45)];
    // Found without one that was signed, it is acknowledged, too, and once.
    for before in [vec![], vec![vec![reassignment_prepared(1, hash(0x44))], vec![reassignment_abandoned(1)]]] {
        let delivered = to_b([before.clone(), vec![on_chain(), vec![confirmed(hash(0x22), 55)]]].concat());
        let found = records(delivered, &["a", "b"]).await;
        assert_eq!(found[0].as_ref(), Some(&missed_once(35)));
        let b = found[1].as_ref().unwrap();
        assert_eq!((b.won, b.acknowledged, b.delivered, b.late, b.missed), (1, 1, 1, 0, 0));
        assert_eq!(b.times, [DeliveryTime { at: at(55), seconds: 10 }], "since the reassignment");
    }
    for (last, second) in [(nobody_else(), 60), (reservation_lapsed("b", quote_hash("b"), 91), 91)] {
        let found = records(to_b(vec![on_chain(), vec![last]]), &["a", "b"]).await;
        assert_eq!(found[0].as_ref(), Some(&missed_once(35)));
        let b = found[1].as_ref().unwrap();
        assert_eq!((b.acknowledged, b.missed, &b.outcomes), (1, 1, &vec![missed_at(second)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn awards_of_a_second_auction_are_refused_and_left_unanswered_as_those_of_the_first() {
    let begun = |is_followed| vec![vec![secured(hash(0x12), 20)], lapsed_at(35), won_by_b(is_followed)];
    let last = |refusal| vec![lapsed("b", refusal, 41), nobody_else()];
    for (refusal, is_followed, misses) in [
        (Some("INSUFFICIENT_LIQUIDITY"), false, 1),
        (None, false, 1),
        // Its silence may have been a short one, and nobody acknowledged.
        (None, true, 0),
    ] {
        let found = records(won_by_a([begun(is_followed), vec![last(refusal)]].concat()), &["b"]).await.remove(0);
        let b = found.unwrap();
        assert_eq!((b.won, b.refused, b.unanswered), (1, u64::from(refusal.is_some()), u64::from(refusal.is_none())));
        assert_eq!(b.outcomes, vec![missed_at(41); misses], "{refusal:?} {is_followed}");
    }
    // The one that acknowledges overtakes the silent of its own auction, and the silent of the first were told of before.
    // One settler wins behind the silent of both, as one quote of these tests has a document that names its settler.
    let first = vec![lapsed("a", None, 12), won_by_stored(12)];
    let stored = reservation_lapsed(stored_settler().as_str(), quote_hash("stored"), 35);
    let second = vec![lapsed("b", None, 41), won_by_stored(41)];
    let PaymentEvent::AuctionClosed(mut closed) = auction(&["b", "c"], &["b", "c"]) else { unreachable!() };
    closed.alternates = vec![kept("c")];
    let won_again = vec![PaymentEvent::AuctionClosed(closed), won("b", 40)];
    let behind = vec![first, vec![secured(hash(0x12), 20)], vec![stored], won_again, second];
    let behind = [behind, vec![vec![reassignment_prepared(1, hash(0x44))]]].concat();
    let found = records(won_by_a(behind), &["a", "b"]).await;
    let outcomes = |at: usize| found[at].as_ref().unwrap().outcomes.clone();
    assert_eq!((outcomes(0), outcomes(1)), (vec![missed_at(12)], vec![missed_at(41)]));
}
