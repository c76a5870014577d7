//! The reassignment of an escrow, in the state machine: a reservation that lapses, the auction that follows, and its attempts.

use events::{
    event::{EscrowPlan, MemberAttested, ReservationLapsed, SelectorRef, Submitted, VerifierRef},
    quote::{SignedQuote, reassignment_auction_of},
    verifier_set::{VerifierMember, VerifierSet},
};
use sagas::{
    auction::{AWARD_MARGIN_SECONDS, judge_for, sift},
    handlers::next_of,
    payment::REASSIGNMENT_ATTEMPTS_MAX,
    ports::{Answer, Bid, Escrowed, Gathered},
};

use super::*;
use crate::given::reassignment::*;

fn follows(history: &[PaymentEvent], event: &PaymentEvent) -> bool {
    evolve(fold(history).unwrap(), event).is_ok()
}

fn lapse(seconds: i64, until: i64) -> Command {
    Command::LapseReservation {
        given: Vec::new(),
        attestation: WORD.to_owned(),
        quote_deadline: at(until),
        at: at(seconds),
    }
}

fn close_with(winner: Option<SignedQuote>) -> Command {
    let Command::CloseAuction { mut judgement, .. } = judgement(false) else { unreachable!() };
    judgement.winner = winner;
    Command::CloseAuction { judgement, at: at(33) }
}

fn submission_to_a_set() -> Submitted {
    let member = |n| VerifierMember { account: member(n), endpoint: format!("http://127.0.0.1:{n}") };
    let verifier = VerifierRef::of(VerifierSet::new(2, (1..=3).map(member).collect()).unwrap()).unwrap();
    let escrow = EscrowPlan { releaser: verifier.account.clone(), ..submission().escrow };
    Submitted { verifier, escrow, ..submission() }
}

fn secured_by_a_set() -> Vec<PaymentEvent> {
    let mut events = until_secured();
    events[0] = PaymentEvent::Submitted(Box::new(submission_to_a_set()));
    events
}

fn nondelivery(n: u8) -> PaymentEvent {
    PaymentEvent::NonDeliveryAttested(by_member(n))
}

#[test]
fn a_reservation_lapses_and_the_payment_is_where_an_auction_is_open() {
    for history in [until_secured(), [until_secured(), vec![seen(7)]].concat()] {
        let events = given(&history).when(lapse(30, 33));
        assert_eq!(events, [reservation_lapsed()]);
        let payment = given(&[history, events].concat()).0;
        assert_eq!((payment.stage(), payment.seen.as_ref(), &payment.award), (Stage::Reopened, None, &None));
        let lapsed = payment.reopened().unwrap();
        assert_eq!((lapsed.event.attestation.as_str(), &lapsed.award.quote.settler), (WORD, &did(1)));
        let Step::Do(action) = next(&payment, at(31)) else { panic!("nothing is to be done") };
        let Action::GatherBids(request) = *action else { panic!("{action:?}") };
        assert_eq!(request.auction_id, reassignment_auction_of(&submission().payment_id, 1));
        assert_eq!((request.quote_deadline, &request.blacklist[..]), (at(33), &[did(1)][..]));
        let reserved_for = signed(1, quote(1, "1010")).hash();
        assert_eq!(request.escrowed, Some(Escrowed { amount: amount("1010"), reserved_for }));
    }
}

#[test]
fn members_of_a_set_that_lapses_a_reservation_are_on_record_and_as_many_as_its_threshold() {
    let lapsed_by = |given: Vec<MemberAttested>| Command::LapseReservation {
        given,
        attestation: WORD.to_owned(),
        quote_deadline: at(33),
        at: at(30),
    };
    let one = [secured_by_a_set(), vec![nondelivery(1)]].concat();
    let events = given(&one).when(lapsed_by(vec![by_member(1), by_member(3)]));
    assert_eq!(events, [nondelivery(3), reservation_lapsed()]);
    let payment = given(&[one.clone(), events].concat()).0;
    assert!(payment.nondelivery_by.is_empty(), "the next reservation has none of its own");
    let signed: Vec<_> = payment.lapsed_reservations[0].nondelivery_by.iter().map(|by| &by.member).collect();
    assert_eq!(signed, [&member(1), &member(3)]);
    for too_few in [secured_by_a_set(), one] {
        assert!(!follows(&too_few, &reservation_lapsed()), "fewer than the threshold");
    }
}

#[test]
fn a_reservation_does_not_lapse_where_the_payer_chose_the_quote_or_no_time_is_left() {
    let selector =
        SelectorRef { key: events::selection::SelectorSigner::Ed25519(settler(100)).key(), answer_by: at(14) };
    let chosen = Submitted { selector: Some(selector), ..submission() };
    let signed_for = Submitted { authorization: batch::permit(events::Hash32([7; 32])), ..submission() };
    let collected = events::event::CollectedQuote {
        quote_request_id: batch::batch_id(),
        quote_id: batch::batch_quote(1, "1010").id(),
    };
    let authorization = batch::permit(batch::batch_quote(1, "1010").hash());
    let out_of_a_batch = Submitted { collected_quote: Some(collected), authorization, ..submission() };
    let secured = fold(&until_secured()).unwrap().unwrap();
    for submitted in [chosen, signed_for, out_of_a_batch] {
        let mut payment = secured.clone();
        payment.submitted = Box::new(submitted);
        assert!(sagas::payment::decide(&payment, lapse(30, 33)).is_err());
        assert!(evolve(Some(payment), &reservation_lapsed()).is_err());
    }
    // The auction and the award have to be over before the last second in which a delivery counts.
    let margin = i64::try_from(AWARD_MARGIN_SECONDS).unwrap();
    let ends = 60 - margin;
    given(&until_secured()).when(lapse(30, ends - 1));
    for (seconds, until) in [(30, ends), (30, 59), (30, 61), (30, 30), (31, 30), (200, 203)] {
        given(&until_secured()).refuses(lapse(seconds, until));
    }
    let late = lapse_of(&signed(1, quote(1, "1010")), WORD, ends - 3);
    assert!(!follows(&until_secured(), &PaymentEvent::ReservationLapsed(late)));
}

#[test]
fn a_reservation_lapses_only_while_its_delivery_is_awaited_and_only_the_one_in_escrow() {
    let awarded = vec![submitted(), auction_closed(), awarded()];
    let finalized = [until_secured(), vec![seen(7), finalized(7)]].concat();
    let failed = [until_secured(), vec![failed_by(WORD)]].concat();
    let completed = [until_secured(), vec![seen(7), confirmed(7)]].concat();
    for history in [&awarded, &finalized, &failed, &completed, &undisturbed(), &until_reopened(), &until_reawarded()] {
        given(history).refuses(lapse(30, 33));
        assert!(!follows(history, &reservation_lapsed()), "{:?}", types(history));
    }
    let PaymentEvent::ReservationLapsed(lapsed) = reservation_lapsed() else { unreachable!() };
    for another in [
        ReservationLapsed { settler: did(2), ..lapsed.clone() },
        ReservationLapsed { quote_hash: events::Hash32([7; 32]), ..lapsed },
    ] {
        assert!(!follows(&until_secured(), &PaymentEvent::ReservationLapsed(another)));
    }
}

#[test]
fn the_auction_that_follows_awards_another_or_returns_the_money_and_nothing_follows_that() {
    let winner = signed(2, next_quote(2, "1005", 1));
    let events = given(&until_reopened()).when(close_with(Some(winner.clone())));
    assert_eq!(types(&events), ["AuctionClosed", "QuoteAwarded"]);
    let payment = given(&[until_reopened(), events].concat()).0;
    assert_eq!(payment.stage(), Stage::Reawarded);
    let Step::Do(action) = next(&payment, at(34)) else { panic!("nothing is to be done") };
    let Action::SecureReassignment { award, order, attempt: 1 } = *action else { panic!("{action:?}") };
    assert_eq!((&award.settler, award.quote_hash), (&did(2), winner.hash()));
    assert_eq!(award.escrowed.map(|escrowed| escrowed.reserved_for), Some(order.lapsed.quote_hash));
    assert_eq!((order.non_delivery.as_str(), order.deposited), (WORD, amount("1010")));
    assert_eq!((order.reservation.quote_hash, order.reservation.source_amount), (winner.hash(), amount("1005")));
    assert_eq!(order.terms_before().reservation.map(|of| of.quote_hash), Some(order.lapsed.quote_hash));
    assert_eq!(order.terms_after().reservation.map(|of| of.quote_hash), Some(winner.hash()));

    let events = given(&until_reopened()).when(close_with(None));
    assert_eq!(types(&events), ["AuctionClosed", "Failed"]);
    assert_eq!(*failure(&events).1, RefundDue::ByNonDelivery { attestation: WORD.to_owned() });
    let over = [until_reopened(), events].concat();
    assert_eq!(given(&over).0.stage(), Stage::Refunding);
    for event in [auction_closed(), reawarded(2, 1), reassignment_prepared(1), reassigned(6), seen(7), failed_by(WORD)]
    {
        assert!(!follows(&over, &event), "{event:?}");
    }
    refunds(over);
}

/// The money goes back after `history`.
#[track_caller]
fn refunds(mut history: Vec<PaymentEvent>) {
    history.extend(given(&history).when(Command::PrepareRefund(transaction(1))));
    let PaymentEvent::EscrowRefunded(refund) = refunded() else { unreachable!() };
    history.extend(given(&history).when(observed(EscrowState::Refunded(refund))));
    assert_eq!(given(&history).0.stage(), Stage::Rest);
}

#[test]
fn who_faded_asks_for_more_than_is_in_escrow_or_bid_in_another_auction_does_not_win() {
    let closed = [until_reopened(), vec![auction_closed()]].concat();
    assert!(follows(&closed, &award_of(&signed(2, next_quote(2, "1010", 1)))), "just what is in escrow");
    for quote in [
        (1, next_quote(1, "1005", 1)),
        (2, next_quote(2, "1011", 1)),
        (2, next_quote(2, "1005", 2)),
        (2, quote(2, "1005")),
    ] {
        let (n, quote) = quote;
        assert!(!follows(&closed, &award_of(&signed(n, quote.clone()))), "{quote:?}");
    }
    let request = given(&until_reopened()).0.request_for_quotes();
    let bid = |n: u8, price: &str| {
        let answer = Answer::Quote(signed(n, next_quote(n, price, 1)).document().to_owned());
        Bid { settler: did(n).token(), received_at: at(32), answer }
    };
    let bids = vec![bid(1, "1000"), bid(2, "1011"), bid(3, "1009"), bid(4, "1008")];
    let gathered = Gathered { addressed: (1..=4).map(did).collect(), bids, ..Gathered::default() };
    let sifted = sift(&request, Some(amount("1100")), gathered.clone(), at(33));
    let counts: Vec<_> = sifted.quotes.iter().map(|signed| signed.quote().settler.clone()).collect();
    assert_eq!((counts, sifted.dropped.len()), (vec![did(4), did(3)], 2));
    let judged = judge_for(&submission(), &request, gathered, at(33));
    assert_eq!((judged.winner.map(|won| won.quote().settler.clone()), judged.alternates.len()), (Some(did(4)), 1));
}

#[test]
fn a_winner_that_is_lost_is_followed_by_the_next_and_then_the_money_goes_back() {
    let lost = |refusal: Option<&str>| Command::LoseWinner { refusal: refusal.map(str::to_owned), at: at(34) };
    let mut history = [until_reopened(), vec![auction_closed_again(1), reawarded(2, 1)]].concat();
    // Without a deposit's deadline: the window of the delivery is what counts.
    assert_eq!(given(&history).0.replaceable_until(), Some(at(49)));
    for n in [2, 3] {
        let events = given(&history).when(lost(None));
        assert_eq!(types(&events), ["AwardLapsed", "QuoteAwarded"]);
        assert_eq!(events[0], award_lapsed_again(n, 1));
        history.extend(events);
        assert_eq!(given(&history).0.stage(), Stage::Reawarded);
    }
    let events = given(&history).when(lost(Some("INSUFFICIENT_LIQUIDITY")));
    assert_eq!(types(&events), ["AwardLapsed", "Failed"]);
    let (reason, refund) = failure(&events);
    assert_eq!(reason.retry_classification, Some(RetryClassification::RetryWithNewRequestId));
    assert_eq!(*refund, RefundDue::ByNonDelivery { attestation: WORD.to_owned() });
    let over = [history.clone(), events].concat();
    assert_eq!(given(&over).0.stage(), Stage::Refunding);
    refunds(over);
    // Between the two nothing else is there.
    let lapsed = [history, vec![award_lapsed_again(4, 1)]].concat();
    for event in [reawarded(2, 1), reassigned(6), auction_closed(), failed(RefundDue::AfterWindow), failed_by("0x")] {
        assert!(!follows(&lapsed, &event), "{event:?}");
    }
    assert!(follows(&lapsed, &failed_by(WORD)));
}

#[test]
fn who_is_passed_over_has_nothing_signed_for_it() {
    let lost = Command::LoseWinner { refusal: None, at: at(36) };
    let signed = [until_reawarded(), vec![reassignment_prepared(1)]].concat();
    let abandoned = [signed.clone(), vec![reassignment_abandoned(1)]].concat();
    for history in [signed, abandoned] {
        given(&history).refuses(lost.clone());
        assert!(!follows(&history, &award_lapsed_again(2, 1)));
    }
    // What was signed for another in an earlier round says nothing of it.
    let again = [until_reassigned(), vec![lapsed_again(2, 1), auction_closed(), reawarded(3, 2)]].concat();
    assert_eq!(types(&given(&again).when(lost)), ["AwardLapsed", "Failed"]);
}

#[test]
fn a_reassignment_is_attempted_repriced_and_given_up_in_attempts_that_are_numbered_over_all_rounds() {
    let mut events = until_reawarded();
    given(&events).refuses(Command::PrepareReassignment(transaction(2)));
    given(&events).refuses(Command::RepriceReassignment(version(1, 2)));
    given(&until_reopened()).refuses(Command::PrepareReassignment(transaction(1)));
    events.extend(given(&events).when(Command::PrepareReassignment(transaction(1))));
    assert_eq!(given(&events).0.stage(), Stage::Reassigning);
    given(&events).refuses(Command::PrepareReassignment(transaction(2)));
    events.extend(given(&events).when(Command::RepriceReassignment(version(1, 2))));
    assert_eq!(given(&events).0.reassignment.live, [version(1, 1), version(1, 2)]);
    let Step::Do(action) = next(&given(&events).0, at(36)) else { panic!("nothing is to be done") };
    assert!(matches!(*action, Action::FollowReassignment { versions, .. } if versions.len() == 2));
    let abandon = || Command::AbandonReassignment { evidence: "nonce taken".to_owned(), at: at(36) };
    events.extend(given(&events).when(abandon()));
    assert_eq!(events.last(), Some(&reassignment_abandoned(1)));
    given(&events).refuses(abandon());
    given(&events).refuses(Command::PrepareReassignment(transaction(1)));
    events.extend(given(&events).when(Command::PrepareReassignment(transaction(2))));
    events.extend(given(&events).when(Command::ObserveReassignment(inclusion(6))));
    assert_eq!(events.last(), Some(&reassigned(6)));
    let payment = given(&events).0;
    assert_eq!((payment.stage(), payment.reassignment.live.len()), (Stage::Secured, 0));
    assert_eq!(payment.award.as_ref().map(|award| &award.quote.settler), Some(&did(2)));
    given(&events).refuses(Command::ObserveReassignment(inclusion(6)));
    events.extend([lapsed_again(2, 1), auction_closed(), reawarded(3, 2)]);
    given(&events).refuses(Command::PrepareReassignment(transaction(1)));
    events.extend(given(&events).when(Command::PrepareReassignment(transaction(3))));
    assert_eq!(given(&events).0.reassignment.count, 3);
}

#[test]
fn reassignments_are_tried_a_bounded_number_of_times_over_all_rounds() {
    let mut events = until_reawarded();
    for attempt in 1..=REASSIGNMENT_ATTEMPTS_MAX {
        assert!(matches!(next(&given(&events).0, at(36)), Step::Do(action)
            if matches!(*action, Action::SecureReassignment { attempt: next, .. } if next == attempt)));
        events.extend(given(&events).when(Command::PrepareReassignment(transaction(attempt))));
        events.push(reassignment_abandoned(attempt));
    }
    let one_more = transaction(REASSIGNMENT_ATTEMPTS_MAX + 1);
    given(&events).refuses(Command::PrepareReassignment(one_more.clone()));
    assert!(!follows(&events, &PaymentEvent::ReassignmentPrepared(one_more)));
    assert!(matches!(next(&given(&events).0, at(36)), Step::Do(action)
        if matches!(*action, Action::GiveUpReassignment { .. })));
    // Somebody who saw one may have brought it; no auction is held for an escrow that nothing more is tried for.
    let found = [events.clone(), given(&events).when(Command::ObserveReassignment(inclusion(6)))].concat();
    assert_eq!(given(&found).0.stage(), Stage::Secured);
    assert!(!follows(&found, &lapsed_again(2, 1)));
    let events = [events.clone(), given(&events).when(Command::GiveUpReassignment { at: at(56) })].concat();
    assert_eq!(*failure(&events).1, RefundDue::ByNonDelivery { attestation: WORD.to_owned() });
}

#[test]
fn a_reassignment_that_is_found_or_given_up_ends_the_leg_from_wherever_it_is() {
    let give_up = || Command::GiveUpReassignment { at: at(56) };
    let under_way = [until_reawarded(), vec![reassignment_prepared(1)]].concat();
    for history in [until_reawarded(), under_way.clone()] {
        assert_eq!(given(&history).when(Command::ObserveReassignment(inclusion(6))), [reassigned(6)]);
    }
    for history in [until_reopened(), until_reawarded(), under_way] {
        let failed = [history.clone(), given(&history).when(give_up())].concat();
        let (reason, refund) = failure(&failed);
        assert_eq!(reason.retry_classification, Some(RetryClassification::RetryWithNewRequestId));
        assert_eq!(*refund, RefundDue::ByNonDelivery { attestation: WORD.to_owned() });
        for event in [reassigned(6), seen(7), failed_by(WORD), reassignment_prepared(2)] {
            assert!(!follows(&failed, &event), "{event:?}");
        }
        refunds(failed);
        for other in [RefundDue::Nothing, RefundDue::AfterWindow] {
            assert!(!follows(&history, &super::failed(other)));
        }
        assert!(!follows(&history, &failed_by("0x5e2")), "another word than the one on record");
    }
    given(&until_reopened()).refuses(Command::ObserveReassignment(inclusion(6)));
    for history in [until_secured(), until_reassigned(), undisturbed()] {
        given(&history).refuses(give_up());
        given(&history).refuses(Command::ObserveReassignment(inclusion(6)));
    }
}

#[test]
fn the_next_settlers_delivery_is_looked_for_confirmed_and_released_as_the_firsts_would_be() {
    let mut events = until_reassigned();
    let winner = signed(2, next_quote(2, "1005", 1));
    let Step::Do(action) = next(&given(&events).0, at(37)) else { panic!("nothing is to be done") };
    let Action::FollowDelivery { order, case, .. } = *action else { panic!("{action:?}") };
    assert_eq!((order.quote_hash, case.quote_document.as_str()), (winner.hash(), winner.document()));
    events.extend(given(&events).when(Command::ObserveDelivery(inclusion(7))));
    events.extend(given(&events).when(Command::ConfirmDelivery {
        inclusion: inclusion(7),
        given: Vec::new(),
        attestation: "0xa77e57".to_owned(),
        at: at(40),
        release_from: at(50),
    }));
    let Step::Do(action) = next(&given(&events).0, at(51)) else { panic!("nothing is to be done") };
    let Action::SecureRelease { order, .. } = *action else { panic!("{action:?}") };
    assert_eq!(order.quote_hash, winner.hash());
    events.extend(given(&events).when(observed(EscrowState::Released(inclusion(9)))));
    assert_eq!(given(&events).0.stage(), Stage::Rest);
}

#[test]
fn a_second_reservation_lapses_too_and_neither_of_the_two_is_asked_again() {
    let second = signed(2, next_quote(2, "1005", 1));
    let command = Command::LapseReservation {
        given: Vec::new(),
        attestation: "0x5e2".to_owned(),
        quote_deadline: at(43),
        at: at(40),
    };
    let events = given(&until_reassigned()).when(command);
    assert_eq!(events, [lapsed_again(2, 1)]);
    let history = [until_reassigned(), events].concat();
    let payment = given(&history).0;
    let request = payment.request_for_quotes();
    assert_eq!(request.auction_id, reassignment_auction_of(&submission().payment_id, 2));
    assert_eq!((request.quote_deadline, &request.blacklist[..]), (at(43), &[did(1), did(2)][..]));
    assert_eq!(request.escrowed.map(|escrowed| escrowed.reserved_for), Some(second.hash()));
    let events = given(&history).when(close_with(None));
    assert_eq!(*failure(&events).1, RefundDue::ByNonDelivery { attestation: "0x5e2".to_owned() });
    refunds([history, events].concat());
    // Or it fails at once, by the word for the second.
    let fail = Command::FailUndelivered { given: Vec::new(), attestation: Some("0x5e2".to_owned()), at: at(56) };
    refunds([until_reassigned(), given(&until_reassigned()).when(fail)].concat());
}

/// A set's signatures name the reservation, so those of an earlier one are nobody's for the next.
#[test]
fn members_sign_anew_for_each_reservation() {
    let first = [secured_by_a_set(), vec![nondelivery(1), nondelivery(2), reservation_lapsed()]].concat();
    let again = [first, vec![auction_closed(), reawarded(2, 1), reassignment_prepared(1), reassigned(6)]].concat();
    assert!(!follows(&again, &lapsed_again(2, 1)));
    assert!(!follows(&again, &failed_by("0x5e2")));
    let signed = [again, vec![nondelivery(1), nondelivery(2)]].concat();
    assert!(follows(&signed, &lapsed_again(2, 1)));
}

#[test]
fn a_payment_out_of_a_copy_is_not_reassigned_and_who_asks_is_told_to_reconcile() {
    for history in [until_reopened(), until_reawarded()] {
        let payment = given(&history).0;
        let Step::Do(action) = next_of(&payment, at(34), true) else { panic!("nothing is to be done") };
        assert_eq!(*action, Action::ForgoReassignment);
        let failed = [history.clone(), given(&history).when(Command::ForgoReassignment { at: at(34) })].concat();
        let (reason, refund) = failure(&failed);
        assert_eq!(reason.retry_classification, Some(RetryClassification::ReconcileThenDecide));
        assert_eq!(*refund, RefundDue::ByNonDelivery { attestation: WORD.to_owned() });
        // Whom the copy does not know may have delivered, and be paid.
        let released = [failed.clone(), given(&failed).when(observed(EscrowState::Released(inclusion(9))))].concat();
        assert_eq!(given(&released).0.stage(), Stage::Rest);
        refunds(failed);
    }
    // What is reserved for another than the copy says goes back when nobody can be paid any more.
    for history in [until_secured(), until_reassigned()] {
        let failed = [history.clone(), given(&history).when(Command::ForgoReassignment { at: at(34) })].concat();
        let (reason, refund) = failure(&failed);
        let told = (reason.retry_classification, refund);
        assert_eq!(told, (Some(RetryClassification::ReconcileThenDecide), &RefundDue::AfterWindow));
        refunds(failed);
    }
    given(&undisturbed()).refuses(Command::ForgoReassignment { at: at(34) });
    // What is signed is on chain, or proven not to be; where neither can be told, it is given up when the refund window opens.
    let under_way = given(&[until_reawarded(), vec![reassignment_prepared(1)]].concat()).0;
    assert_eq!(next_of(&under_way, at(34), true), next(&under_way, at(34)));
    let history = [until_reawarded(), vec![reassignment_prepared(1)]].concat();
    let failed = [history.clone(), given(&history).when(Command::ForgoReassignment { at: at(34) })].concat();
    let (reason, refund) = failure(&failed);
    assert_eq!(reason.retry_classification, Some(RetryClassification::ReconcileThenDecide));
    assert!(matches!(refund, RefundDue::ByNonDelivery { .. }), "{refund:?}");
}

/// Any event of the leg, and of what may come before and after it.
pub fn any_event() -> impl Strategy<Value = PaymentEvent> {
    prop_oneof![
        Just(reservation_lapsed()),
        (2u8..5, 1usize..3).prop_map(|(n, round)| lapsed_again(n, round)),
        Just(auction_closed()),
        (1usize..3).prop_map(auction_closed_again),
        (1u8..5, 1usize..3).prop_map(|(n, round)| reawarded(n, round)),
        (2u8..5, 1usize..3).prop_map(|(n, round)| award_lapsed_again(n, round)),
        (1u32..5).prop_map(reassignment_prepared),
        (1u32..5, 2u32..4).prop_map(|(attempt, version)| reassignment_repriced(attempt, version)),
        (1u32..5).prop_map(reassignment_abandoned),
        Just(reassigned(6)),
        prop_oneof![Just(WORD), Just("0x5e2")].prop_map(failed_by),
    ]
}

fn any_after_the_deposit() -> impl Strategy<Value = PaymentEvent> {
    prop_oneof![
        10 => any_event(),
        1 => Just(seen(7)),
        1 => Just(finalized(7)),
        1 => Just(confirmed(7)),
        1 => Just(released()),
        1 => Just(failed(RefundDue::Nothing)),
        1 => Just(failed(RefundDue::AfterWindow)),
        1 => (1u32..3).prop_map(refund_prepared),
        1 => Just(refunded()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever is offered once money is in escrow: it is never taken for nothing, and can always go on or back.
    #[test]
    fn an_escrow_with_several_reservations_keeps_its_promises(
        events in prop::collection::vec(any_after_the_deposit(), 1..60)
    ) {
        let mut state = fold(&until_secured()).unwrap().unwrap();
        let (mut lapses, mut reassignments, mut attempts) = (0_usize, 0_usize, 0_u32);
        for event in events {
            let Ok(next) = evolve(Some(state.clone()), &event) else { continue };
            prop_assert!(state.stage() != Stage::Rest, "what is at rest stays so: {}", event.type_name());
            match &event {
                PaymentEvent::ReservationLapsed(_) => lapses += 1,
                PaymentEvent::EscrowReassigned(_) => reassignments += 1,
                PaymentEvent::ReassignmentPrepared(prepared) => {
                    attempts += 1;
                    prop_assert_eq!(prepared.attempt, attempts, "attempts are numbered without gaps");
                }
                PaymentEvent::AwardLapsed(_) => prop_assert!(!state.is_reassignment_signed()),
                PaymentEvent::Failed(failed) => {
                    let word = state.reopened().map(|lapsed| lapsed.event.attestation.clone());
                    let by_word = word.map(|attestation| RefundDue::ByNonDelivery { attestation });
                    prop_assert!(by_word.is_none_or(|by_word| failed.refund == by_word));
                    prop_assert!(failed.refund != RefundDue::Nothing);
                    prop_assert!(state.delivery().is_none(), "a completed payment never fails");
                }
                _ => {}
            }
            prop_assert!(lapses == reassignments + usize::from(next.is_reopened), "each lapse is reassigned once");
            prop_assert!(!next.is_reopened || next.seen.is_none() && next.delivery().is_none());
            if let Some(award) = &next.award {
                let faded = next.lapsed_reservations.iter().any(|lapsed| lapsed.event.settler == award.quote.settler);
                prop_assert!(!faded, "who did not deliver does not win again");
                prop_assert!(award.quote.source_amount <= amount("1010"), "nobody is promised more than there is");
            }
            if next.is_reopened && next.failed.is_none() {
                let attestation = &next.reopened().unwrap().event.attestation;
                prop_assert!(evolve(Some(next.clone()), &failed_by(attestation)).is_ok(), "it can always go back");
            } else if next.stage() == Stage::Refunding && next.refund.live.is_empty() {
                let attempt = refund_prepared(next.refund.count + 1);
                prop_assert!(evolve(Some(next.clone()), &attempt).is_ok(), "what failed can be returned");
            }
            state = next;
        }
    }
}
