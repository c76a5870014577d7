//! Awards that lapse: the next quote is awarded, whoever dies in between, and everybody hears what concerns him.

use events::Did;

use super::*;

/// What the winners do of an auction in which three settlers bid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// The first refuses.
    Refused,
    /// The first doesn't answer.
    Unanswered,
    /// None of them answers.
    NobodyAnswers,
}

/// The bids of settlers 1 to 3, the cheapest first.
pub fn gathered(auction_id: &str) -> Gathered {
    let bid = |n: u8| {
        let quote = Quote { auction_id: auction_id.to_owned(), valid_until: at(50), ..quote(n, &format!("101{n}")) };
        let answer = Answer::Quote(signed(n, quote).document().to_owned());
        Bid { settler: did(n).token(), received_at: at(3), answer }
    };
    let addressed = (1..=4).map(did).collect();
    Gathered { addressed, bids: (1..=3).rev().map(bid).collect(), ..Gathered::default() }
}

/// What the winner of `award` answers.
pub fn answer(lapse: Lapse, award: &Award) -> AwardAnswer {
    // Nothing follows the third.
    assert_eq!(award.replaceable_until.is_some(), award.settler != did(3), "{}", award.settler);
    match lapse {
        Lapse::Refused if award.settler == did(1) => AwardAnswer::Refused("INSUFFICIENT_LIQUIDITY".to_owned()),
        Lapse::Unanswered if award.settler == did(1) => AwardAnswer::Silent,
        Lapse::NobodyAnswers => AwardAnswer::Silent,
        _ => AwardAnswer::Accepted,
    }
}

fn told(world: &World) -> Vec<Did> {
    world.state.lock().unwrap().over.iter().flat_map(|over| over.settlers.clone()).collect()
}

#[tokio::test]
async fn the_next_quote_is_awarded_when_the_winner_is_lost_whoever_dies_in_between() {
    for (lapse, code) in [(Lapse::Refused, "AWARD_REFUSED"), (Lapse::Unanswered, "AWARD_UNANSWERED")] {
        let plot = Plot::Lapses(lapse);
        let (undisturbed, _) = live(World::new(plot)).await;
        // Who bid nothing hears of the end when the auction closes, who can't win any more when the deposit is signed.
        assert_eq!(told(&undisturbed), [did(4), did(3)]);
        let calls = undisturbed.calls.load(Ordering::SeqCst);
        for stop_at in (0..=calls).flat_map(|number| [(number, false), (number, true)]) {
            let (world, events) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
            let expected = [&DELIVERED[..3], &["AwardLapsed"], &DELIVERED[2..]].concat();
            assert_eq!(types(&events), expected, "died at {stop_at:?}");
            let PaymentEvent::AwardLapsed(lapsed) = &events[3] else { panic!("{events:?}") };
            assert_eq!((&lapsed.settler, lapsed.refusal.is_some()), (&did(1), lapse == Lapse::Refused));
            let PaymentEvent::QuoteAwarded(next) = &events[4] else { panic!("{events:?}") };
            assert_eq!(next.signed_quote().unwrap().quote().settler, did(2));
            let state = world.state.lock().unwrap();
            assert_eq!(state.deposits.len(), 1, "died at {stop_at:?}");
            // The loser finds the end in its award's place, and the winner does not.
            assert!(!state.ends.is_empty(), "died at {stop_at:?}");
            assert!(state.ends.iter().all(|end| end.code == code && end.settler == did(1)), "{:?}", state.ends);
            assert!(!state.over.iter().any(|over| over.settlers.contains(&did(2))), "{:?}", state.over);
        }
    }
}

#[tokio::test]
async fn a_payment_fails_before_any_money_moves_when_nobody_stands_by_its_quote() {
    let (world, events) = live(World::new(Plot::Lapses(Lapse::NobodyAnswers))).await;
    let lapse = ["AwardLapsed", "QuoteAwarded"];
    let expected = [&DELIVERED[..3], &lapse, &lapse, &["AwardWithdrawn", "Failed", "WinnerTold"]].concat();
    assert_eq!(types(&events), expected);
    let state = world.state.lock().unwrap();
    assert!(state.deposits.is_empty());
    let ended: Vec<_> = state.ends.iter().map(|end| &end.settler).collect();
    assert_eq!(ended, [&did(1), &did(2), &did(3)]);
}
