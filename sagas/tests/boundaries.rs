//! What is to be done at the very second at which one window ends and the next begins, and what wakes who waits for it.

use std::time::Duration;

use chrono::TimeDelta;
use events::{
    Hash32, PaymentEvent,
    event::{
        AuctionClosed, Authorization, FulfillmentConfirmed, FulfillmentFinalized, QuoteReceived, RefundDue,
        SelectorAsked, SelectorRef, Submitted,
    },
    selection::SelectorSigner,
    time::{Timestamp, unix_seconds},
};
use sagas::{
    Payment,
    handlers::{Action, Step, WakeCondition, next, next_of},
    payment::{DEPOSIT_ATTEMPTS_MAX, REASSIGNMENT_ATTEMPTS_MAX},
};

use crate::given::{reassignment::*, *};

fn payment(events: &[PaymentEvent]) -> Payment {
    given(events).0
}

fn step(events: &[PaymentEvent], now: Timestamp) -> Step {
    next(&payment(events), now)
}

fn action(events: &[PaymentEvent], now: Timestamp) -> Action {
    match step(events, now) {
        Step::Do(action) => *action,
        other => panic!("nothing is to be done: {other:?}"),
    }
}

fn just_past(seconds: i64) -> Timestamp {
    at(seconds) + TimeDelta::milliseconds(1)
}

#[test]
fn a_selector_has_until_its_time_is_past() {
    let selector = SelectorRef { key: SelectorSigner::Ed25519(settler(100)).key(), answer_by: at(14) };
    let submitted = Submitted { selector: Some(selector), ..submission() };
    let asked = SelectorAsked { documents: vec![signed(1, quote(1, "1010")).document().to_owned()], asked_at: at(10) };
    let PaymentEvent::AuctionClosed(closed) = auction_closed() else { unreachable!() };
    let quotes = vec![sagas::auction::received(&signed(1, quote(1, "1010")))];
    let closed = PaymentEvent::AuctionClosed(AuctionClosed { quotes, ..closed });
    let events = [PaymentEvent::Submitted(Box::new(submitted)), closed, PaymentEvent::SelectorAsked(asked)];
    assert!(matches!(action(&events, at(14)), Action::AskSelector(_)));
    assert_eq!(action(&events, just_past(14)), Action::GiveUpSelector);
}

#[test]
fn a_deposit_is_made_up_to_its_deadline_and_ruled_out_past_it() {
    let events = [submitted(), auction_closed(), awarded()];
    assert!(matches!(action(&events, at(30)), Action::SecureDeposit { attempt: 1, .. }));
    assert!(matches!(action(&events, just_past(30)), Action::RuleOutDeposit { .. }));
}

#[test]
fn a_deposit_is_tried_so_often_and_no_more() {
    let tried = |submitted: PaymentEvent, times: u32| {
        let attempts = (1..=times).flat_map(|attempt| [deposit_prepared(attempt), deposit_abandoned(attempt)]);
        [submitted, auction_closed(), awarded()].into_iter().chain(attempts).collect::<Vec<_>>()
    };
    let last = action(&tried(submitted(), DEPOSIT_ATTEMPTS_MAX - 1), at(20));
    assert!(matches!(last, Action::SecureDeposit { attempt: DEPOSIT_ATTEMPTS_MAX, .. }), "{last:?}");
    assert!(matches!(action(&tried(submitted(), DEPOSIT_ATTEMPTS_MAX), at(20)), Action::GiveUpDeposit { .. }));
    // The payer's own transaction is waited for until its window is past.
    let own = tried(payer_deposit_submitted(), DEPOSIT_ATTEMPTS_MAX);
    assert_eq!(step(&own, at(30)), Step::WaitUntil(at(31)));
    assert!(matches!(action(&own, at(31)), Action::RuleOutDeposit { .. }));
}

#[test]
fn a_payers_deposit_is_watched_once_its_window_is_past() {
    let events = [payer_deposit_submitted(), auction_closed(), failed(RefundDue::Nothing)];
    assert_eq!(step(&events, at(30)), Step::WaitUntil(at(31)));
    assert!(matches!(action(&events, just_past(30)), Action::WatchDeposit { .. }));
}

#[test]
fn money_goes_back_by_a_word_before_the_window_and_without_one_in_it() {
    let word = RefundDue::ByNonDelivery { attestation: "0x5e1".to_owned() };
    for (due, before) in [(word, Some("0x5e1")), (RefundDue::AfterWindow, None)] {
        let events = [until_secured(), vec![failed(due)]].concat();
        match before {
            Some(word) => {
                let Action::SecureRefund { order, attempt: 1 } = action(&events, at(100)) else { panic!("no refund") };
                assert_eq!(order.non_delivery.as_deref(), Some(word));
            }
            None => assert_eq!(step(&events, at(100)), Step::WaitUntil(at(101))),
        }
        let Action::SecureRefund { order, attempt: 1 } = action(&events, just_past(100)) else { panic!("no refund") };
        assert_eq!(order.non_delivery, None);
    }
}

#[test]
fn a_release_is_the_gateways_from_its_time_on_and_a_second_short_of_the_refund_window() {
    let events = [until_secured(), vec![seen(7), confirmed(7)]].concat();
    let until = |now| match action(&events, now) {
        Action::FollowEscrow { until, .. } => until,
        other => panic!("{other:?}"),
    };
    assert_eq!(until(at(44)), unix_seconds(at(45)));
    for now in [at(45), at(99)] {
        assert!(matches!(action(&events, now), Action::SecureRelease { attempt: 1, .. }), "{now}");
    }
    assert_eq!(until(just_past(99)), unix_seconds(at(100)));
    assert_eq!(until(at(100)), unix_seconds(at(100)));
    assert!(matches!(action(&events, just_past(100)), Action::SecureRefund { attempt: 1, .. }));
    // A refund that was begun is gone on with, whatever the time.
    let begun = [events, vec![refund_prepared(1)]].concat();
    assert!(matches!(action(&begun, just_past(100)), Action::FollowRefund { .. }));
}

/// Where no event can be awaited, a settler that does not fetch its money is looked after ever more rarely, and the gateway's own
/// time is not slept through.
#[test]
fn an_escrow_is_looked_at_more_rarely_the_longer_nothing_happens() {
    let mut submitted = submission();
    submitted.escrow.refund_after = unix_seconds(at(10_000));
    let confirmed = PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
        inclusion: inclusion(7),
        attestation: "0xa77e57".to_owned(),
        confirmed_at: at(25),
        release_from: Some(at(5_000)),
    });
    let events = [vec![PaymentEvent::Submitted(Box::new(submitted))], until_secured().split_off(1)].concat();
    let events = [events, vec![seen(7), confirmed]].concat();
    let patience = |seconds| match action(&events, at(seconds)) {
        Action::FollowEscrow { patience, .. } => patience,
        other => panic!("{other:?}"),
    };
    assert_eq!(patience(85), None, "every block in the first minute");
    assert_eq!(patience(86), Some(Duration::from_millis(6_100)));
    assert_eq!(patience(625), Some(Duration::from_secs(60)));
    assert_eq!(patience(4_000), Some(Duration::from_secs(60)));
    assert_eq!(patience(4_990), Some(Duration::from_secs(10)));
}

#[test]
fn an_attestation_is_late_after_its_patience_or_past_what_is_due() {
    let is_late = |finalized_at: i64, now: Timestamp| {
        let finalized = FulfillmentFinalized { inclusion: inclusion(7), finalized_at: at(finalized_at) };
        let events = [until_secured(), vec![seen(7), PaymentEvent::FulfillmentFinalized(finalized)]].concat();
        match action(&events, now) {
            Action::FollowAttestation { is_late, .. } => is_late,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([at(43), at(44)].map(|now| is_late(24, now)), [false, true]);
    // Three quarters of the time from 60 to 100 are over at 90.
    assert_eq!([at(90), at(91)].map(|now| is_late(85, now)), [false, true]);
    let awaited = [until_secured(), vec![seen(7), unattested(7), finalized(7)]].concat();
    assert!(matches!(action(&awaited, at(25)), Action::FollowAttestation { is_late: true, .. }));
}

#[test]
fn an_escrow_is_reassigned_so_often_and_no_more() {
    let tried = |times: u32| {
        let attempts =
            (1..=times).flat_map(|attempt| [reassignment_prepared(attempt), reassignment_abandoned(attempt)]);
        until_reawarded().into_iter().chain(attempts).collect::<Vec<_>>()
    };
    let last = action(&tried(REASSIGNMENT_ATTEMPTS_MAX - 1), at(36));
    assert!(matches!(last, Action::SecureReassignment { attempt: REASSIGNMENT_ATTEMPTS_MAX, .. }), "{last:?}");
    assert!(matches!(action(&tried(REASSIGNMENT_ATTEMPTS_MAX), at(36)), Action::GiveUpReassignment { .. }));
}

#[test]
fn a_reservation_may_lapse_while_there_is_time_left_to_award_anew() {
    let secured = payment(&until_secured());
    let may_reopen = |at: Timestamp, deadline: Timestamp| secured.may_reopen(at, deadline);
    assert!(may_reopen(at(30), at(33)));
    assert!(!may_reopen(at(30), at(30)), "no time to collect quotes in");
    // Deliveries are taken until 60, and a quote is awarded with two seconds to spare.
    assert_eq!([57, 58, 59].map(|deadline| may_reopen(at(30), at(deadline))), [true, false, false]);
}

#[test]
fn what_came_out_of_a_copy_is_not_deposited_nor_reassigned() {
    for events in [vec![submitted()], vec![submitted(), auction_closed(), awarded()]] {
        let payment = payment(&events);
        let Step::Do(found) = next_of(&payment, at(5), true) else { panic!("{events:?}") };
        let Action::FindDeposit { order, .. } = *found else { panic!("{found:?}") };
        assert_eq!(order.is_some(), payment.award.is_some());
        assert_eq!(next_of(&payment, at(5), false), next(&payment, at(5)));
    }
    for events in [until_reopened(), until_reawarded()] {
        let payment = payment(&events);
        assert_eq!(next_of(&payment, at(34), true), Step::Do(Box::new(Action::ForgoReassignment)));
        assert_eq!(next_of(&payment, at(34), false), next(&payment, at(34)));
    }
    // From the escrow on, what the chain says is gone on with.
    let secured = payment(&until_secured());
    assert_eq!(next_of(&secured, at(20), true), next(&secured, at(20)));
}

/// Which chain an action is about, and what there wakes it after a look that showed nothing: contract, deadline, until, and whether a
/// transaction of ours is pushed.
#[test]
fn what_wakes_an_action_is_of_its_own_chain_and_contract() {
    let escrow = submission().escrow;
    let reserving = [submitted(), auction_closed(), awarded(), deposit_prepared(1)];
    let delivered = [until_secured(), vec![seen(7), confirmed(7)]].concat();
    let releasing = [delivered.clone(), vec![release_prepared(1)]].concat();
    let refunding = [until_secured(), vec![failed(RefundDue::AfterWindow), refund_prepared(1)]].concat();
    let reassigning = [until_reawarded(), vec![reassignment_prepared(1)]].concat();
    let (source, destination) = (&escrow.chain_id, events::ChainId::evm(10));
    let proxy = &submission().fulfillment_proxies[0];
    let of_escrow = |deadline, is_pushed, until| (source.clone(), escrow.contract.clone(), deadline, is_pushed, until);
    let (never, second) = (u64::MAX, |seconds| unix_seconds(at(seconds)));
    let expected = [
        (action(&until_secured(), at(20)), (destination.clone(), proxy.clone(), second(60), false, second(100))),
        (action(&reserving, at(12)), of_escrow(second(30), true, never)),
        (action(&reassigning, at(36)), of_escrow(second(55), true, never)),
        (action(&refunding, at(101)), of_escrow(never, true, never)),
        (action(&delivered, at(30)), of_escrow(never, false, second(45))),
        (action(&delivered, at(50)), of_escrow(never, false, second(100))),
        (action(&releasing, at(50)), of_escrow(never, true, never)),
    ];
    for (action, (chain_id, contract, deadline, is_pushed, until)) in &expected {
        let payment_id = &submission().payment_id;
        let condition =
            WakeCondition { chain_id, payment_id, contract, deadline: *deadline, is_pushed: *is_pushed, until: *until };
        assert_eq!(action.wake_condition(), Some(condition), "{action:?}");
        assert_eq!(action.chain(), Some(chain_id), "{action:?}");
    }
    // What looks at each block has a chain and no condition; what is about no chain has neither.
    let past = [submitted(), auction_closed(), awarded()];
    let opened = [payer_deposit_submitted(), auction_closed(), failed(RefundDue::Nothing)];
    let attesting = [until_secured(), vec![seen(7), finalized(7)]].concat();
    for (events, now, chain) in [
        (until_secured(), just_past(100), Some(&destination)),
        (past.to_vec(), at(12), Some(source)),
        (past.to_vec(), at(31), Some(source)),
        (opened.to_vec(), at(31), Some(source)),
        (attesting, at(30), Some(&destination)),
        (until_reawarded(), at(34), Some(source)),
        (vec![submitted()], at(5), None),
        (until_reopened(), at(31), None),
    ] {
        let action = action(&events, now);
        assert_eq!((action.chain(), action.wake_condition()), (chain, None), "{action:?}");
    }
}

/// A deposit leaves room for the next quotes that are at most a sixteenth dearer, where the payer left the quote open.
#[test]
fn a_deposit_leaves_room_for_what_is_at_most_a_sixteenth_dearer() {
    let deposit = |submitted: Submitted, prices: &[&str]| {
        let PaymentEvent::AuctionClosed(closed) = auction_closed() else { unreachable!() };
        let first = sagas::auction::received(&signed(1, quote(1, "1010")));
        let dearer = prices.iter().enumerate().map(|(index, price)| QuoteReceived {
            source_amount: amount(price),
            quote_hash: Hash32([index as u8; 32]),
            ..first.clone()
        });
        let quotes = std::iter::once(first.clone()).chain(dearer).collect();
        let closed = PaymentEvent::AuctionClosed(AuctionClosed { quotes, ..closed });
        let payment = payment(&[PaymentEvent::Submitted(Box::new(submitted)), closed, awarded()]);
        payment.deposit_up_to(payment.award.as_deref().unwrap())
    };
    // A sixteenth of 1010 is 63.
    assert_eq!(deposit(submission(), &["1011", "1073"]), amount("1073"));
    assert_eq!(deposit(submission(), &["1011", "1074"]), amount("1011"));
    assert_eq!(deposit(submission(), &[]), amount("1010"));
    let mut chosen = submission();
    let Authorization::EvmPermit2Escrow(permit) = &mut chosen.authorization else { unreachable!() };
    permit.quote_hash = signed(1, quote(1, "1010")).hash();
    assert_eq!(deposit(chosen, &["1011"]), amount("1010"), "the payer chose the quote");
}

#[test]
fn those_wait_whose_quotes_may_still_be_awarded() {
    let closed = payment(&[submitted(), auction_closed_with_alternates(), awarded()]);
    assert_eq!(closed.waiting_settlers(), [did(2), did(3)]);
    let lapsed = payment(&[submitted(), auction_closed_with_alternates(), awarded(), lapsed(1), awarded_to(2)]);
    assert_eq!(lapsed.waiting_settlers(), [did(3)]);
    assert_eq!(payment(&until_secured()).waiting_settlers(), []);
}
