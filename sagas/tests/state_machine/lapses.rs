//! Awards that lapse, in the state machine: what follows them, and what cannot.

use super::*;

#[test]
fn the_next_quote_follows_one_that_lapses_while_it_lasts() {
    let lost =
        |refusal: Option<&str>, seconds| Command::LoseWinner { refusal: refusal.map(str::to_owned), at: at(seconds) };
    let history = [submitted(), auction_closed_with_alternates(), awarded()];
    let events = given(&history).when(lost(None, 12));
    assert_eq!(events, [lapsed(1), awarded_to(2)]);
    let history = [&history[..], &events].concat();
    let events = given(&history).when(lost(Some("INSUFFICIENT_LIQUIDITY"), 12));
    let [PaymentEvent::AwardLapsed(second), next] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&second.settler, second.refusal.as_deref()), (&did(2), Some("INSUFFICIENT_LIQUIDITY")));
    assert_eq!(*next, awarded_to(3));
    // Nothing follows the last, nor what is not valid long enough, nor once a deposit is signed.
    let all = [&history[..], &events].concat();
    assert_eq!(types(&given(&all).when(lost(None, 12))), ["AwardWithdrawn", "Failed"]);
    assert_eq!(types(&given(&history).when(lost(None, 29))), ["AwardWithdrawn", "Failed"]);
    given(&[&history[..], &[deposit_prepared(1)]].concat()).refuses(lost(None, 12));
}

#[test]
fn an_award_that_lapses_is_followed_by_the_quotes_that_were_kept() {
    let follows = |history: &[PaymentEvent], event: PaymentEvent| evolve(fold(history).unwrap(), &event).is_ok();
    let awarded = [submitted(), auction_closed_with_alternates(), awarded()];
    assert!(follows(&awarded, lapsed(1)));
    assert!(!follows(&awarded, lapsed(2)), "another quote is awarded");
    assert!(!follows(&[submitted(), auction_closed(), self::awarded()], lapsed(1)), "nothing could follow");
    let deposited = [&awarded[..], &[deposit_prepared(1)]].concat();
    assert!(!follows(&deposited, lapsed(1)), "a deposit is signed");
    let waiting = [&awarded[..], &[lapsed(1)]].concat();
    assert!(follows(&waiting, awarded_to(2)));
    assert!(follows(&waiting, awarded_to(3)), "the second may have lapsed by itself");
    for event in [self::awarded(), failed(RefundDue::Nothing), withdrawn(WithdrawalCause::Unanswered), deposit_opened()]
    {
        assert!(!follows(&waiting, event.clone()), "{event:?}");
    }
    let third = [&waiting[..], &[awarded_to(3), lapsed(3)]].concat();
    assert!(fold(&third).is_err(), "nothing is left to follow the third");

    // What is kept are the next best, where the payer left it open.
    let PaymentEvent::AuctionClosed(closed) = auction_closed_with_alternates() else { unreachable!() };
    let mut skipping = closed.clone();
    skipping.alternates.remove(0);
    assert!(!follows(&[submitted()], PaymentEvent::AuctionClosed(skipping)));
    let selector = events::event::SelectorRef {
        key: events::selection::SelectorSigner::Ed25519(settler(100)).key(),
        answer_by: at(14),
    };
    let chosen = events::event::Submitted { selector: Some(selector), ..submission() };
    let chosen = PaymentEvent::Submitted(Box::new(chosen));
    assert!(!follows(&[chosen], PaymentEvent::AuctionClosed(closed)));
}

/// Until when a winner can be replaced is where the next quote ends, or the deposit's window, to the second.
#[test]
fn a_winner_can_be_replaced_for_as_long_as_a_quote_follows() {
    let mut longer = auction_closed_with_alternates();
    let PaymentEvent::AuctionClosed(closed) = &mut longer else { unreachable!() };
    closed.alternates[1].valid_until = at(1_000);
    closed.quotes[2].fulfill_by = at(1_000);
    for closed in [auction_closed_with_alternates(), longer] {
        let payment = given(&[submitted(), closed, awarded()]).0;
        let until = payment.replaceable_until().unwrap();
        for second in 10..120 {
            assert_eq!(payment.next_quote(at(second)).is_some(), at(second) < until, "{second}");
        }
    }
    assert_eq!(given(&[submitted(), auction_closed(), awarded()]).0.replaceable_until(), None);
    let deposited = [submitted(), auction_closed_with_alternates(), awarded(), deposit_prepared(1)];
    assert_eq!(given(&deposited).0.replaceable_until(), None);
}
