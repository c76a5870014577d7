//! Escrows that are reassigned: a winner that fades after the deposit is followed by another, whoever dies in between, or the money
//! goes back.

use events::{
    Did, Family,
    event::{Failed, ReservationLapsed},
    failure::RetryClassification,
    quote::{auction_of, reassignment_auction_of},
    verifier_set::SetAttestation,
};
use sagas::reassignment::ReassignmentRule;

use super::{
    world::escrow::{non_delivery, word},
    *,
};

/// How a payment goes whose winners fade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Course {
    /// Settlers 1 to this one never deliver.
    pub fading: u8,
    /// Settlers 1 to this one bid in every auction, whether they are asked or not, the first for least.
    pub bidding: u8,
    /// The releaser is a set of three, of which two have to sign.
    pub is_set: bool,
    /// What else comes in between.
    pub chain: Chain,
}

/// What may come in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chain {
    /// Nothing.
    Undisturbed,
    /// The first that wins the escrow's second auction does not answer its award.
    NextIsSilent,
    /// Nobody that wins it stands by its quote.
    NextsRefuse,
    /// Each asks for more than is in escrow then.
    TooDear,
    /// The source chain refuses every reassignment.
    Refuses,
    /// It refuses it because somebody who was shown it has sent it.
    Usurped,
    /// The first reassignment's nonce is taken by another transaction.
    Superseded,
    /// A reassignment is not taken into a block before it offers more.
    Dear,
    /// No reassignment that is sent gets into a block.
    NeverLands,
    /// As `NeverLands`, because the escrow is reserved for a quote that the journal does not know.
    Lost,
    /// A stranger cancels the escrow while the reassignment is being signed.
    Cancelled,
    /// The verifiers are of a version that knows no reassignment.
    OldVerifiers,
    /// The escrow is.
    OldEscrow,
    /// The first member of the set takes every question and keeps it.
    OneHangs,
    /// Everybody is known to know reassignments before the deposit; who follows asks for more than the first winner.
    LargerDeposit,
    /// As `LargerDeposit`, and the payer has no more than the first winner asks for.
    LargerRefused,
}

impl Course {
    pub fn is_larger(&self) -> bool {
        matches!(self.chain, Chain::LargerDeposit | Chain::LargerRefused)
    }
}

fn course(fading: u8, bidding: u8) -> Course {
    Course { fading, bidding, is_set: false, chain: Chain::Undisturbed }
}

fn disturbed(chain: Chain) -> Course {
    Course { chain, ..course(1, 4) }
}

/// Whether the members of the tests' set that this word names have signed it.
pub fn is_word_of_the_set(statement: &Statement, attestation: &str) -> bool {
    let Some(parsed) = SetAttestation::parse(Family::Evm, attestation) else { return false };
    let signed = |(member, bytes): &(Account, Vec<u8>)| format!("0x{}", hex::encode(bytes)) == word(statement, member);
    parsed.signatures.len() == 2 && parsed.signatures.iter().all(signed)
}

/// What the winner of `award` answers.
pub fn answer(course: Course, award: &Award) -> AwardAnswer {
    let is_next = award.escrowed.is_some();
    match course.chain {
        Chain::NextIsSilent if is_next && award.settler == did(2) => AwardAnswer::Silent,
        Chain::NextsRefuse if is_next => AwardAnswer::Refused("INSUFFICIENT_LIQUIDITY".to_owned()),
        _ => AwardAnswer::Accepted,
    }
}

const SECURED: [&str; 5] = ["Submitted", "AuctionClosed", "QuoteAwarded", "DepositPrepared", "EscrowSecured"];
const AUCTION: [&str; 3] = ["ReservationLapsed", "AuctionClosed", "QuoteAwarded"];
const REASSIGNED: [&str; 2] = ["ReassignmentPrepared", "EscrowReassigned"];
const PAID: [&str; 3] = ["FulfillmentSeen", "FulfillmentConfirmed", "EscrowReleased"];
const RETURNED: [&str; 3] = ["Failed", "RefundPrepared", "EscrowRefunded"];

/// Drives a payment of this course to its rest, and again with a death at each call: what comes of it is the same each time.
async fn whoever_dies(course: Course, expected: &[&str]) -> (Arc<World>, Vec<PaymentEvent>) {
    let plot = Plot::Reassigns(course);
    let (world, events) = live(World::new(plot)).await;
    assert_eq!(types(&events), expected, "{course:?}");
    let reserved = world.state.lock().unwrap().reserved.reservations.len();
    for stop_at in (1..=world.calls.load(Ordering::SeqCst)).flat_map(|number| [(number, false), (number, true)]) {
        let (other, again) = live(World { stop_at: Some(stop_at), ..World::new(plot) }).await;
        assert_eq!(types(&again), expected, "{course:?} died at {stop_at:?}");
        let state = other.state.lock().unwrap();
        assert_eq!(state.deposits.len(), 1, "{course:?} died at {stop_at:?}");
        assert_eq!(state.reserved.reservations.len(), reserved, "{course:?} died at {stop_at:?}");
        assert!(state.reserved.deliveries.len() <= 1, "{course:?} died at {stop_at:?}");
        assert!(state.refunds.len() <= 1, "{course:?} died at {stop_at:?}");
    }
    (world, events)
}

fn winners(events: &[PaymentEvent]) -> Vec<Did> {
    let awarded = events.iter().filter_map(|event| match event {
        PaymentEvent::QuoteAwarded(awarded) => Some(awarded.signed_quote().unwrap().quote().settler.clone()),
        _ => None,
    });
    awarded.collect()
}

fn lapses_of(events: &[PaymentEvent]) -> Vec<&ReservationLapsed> {
    let lapsed = events.iter().filter_map(|event| match event {
        PaymentEvent::ReservationLapsed(lapsed) => Some(lapsed),
        _ => None,
    });
    lapsed.collect()
}

fn failure(events: &[PaymentEvent]) -> &Failed {
    let failed = events.iter().find_map(|event| match event {
        PaymentEvent::Failed(failed) => Some(&**failed),
        _ => None,
    });
    failed.expect("the payment fails")
}

/// The money went back by the word for the last reservation, long before the refund window.
fn returned_at_once(world: &World, events: &[PaymentEvent]) {
    let lapsed = lapses_of(events);
    let attestation = lapsed.last().unwrap().attestation.clone();
    assert_eq!(failure(events).refund, RefundDue::ByNonDelivery { attestation });
    let state = world.state.lock().unwrap();
    assert!(state.now < 100 && state.reserved.deliveries.is_empty(), "{}", state.now);
}

#[tokio::test]
async fn a_winner_that_fades_after_the_deposit_is_followed_by_another_that_delivers() {
    let expected = [&SECURED[..], &AUCTION, &REASSIGNED, &PAID].concat();
    let (world, events) = whoever_dies(course(1, 4), &expected).await;
    assert_eq!(winners(&events), [did(1), did(2)]);
    let state = world.state.lock().unwrap();
    let payment_id = submission().payment_id;
    let [lapsed] = lapses_of(&events)[..] else { panic!("{events:?}") };
    assert_eq!((&lapsed.settler, lapsed.quote_deadline - lapsed.lapsed_at), (&did(1), chrono::TimeDelta::seconds(2)));
    assert_eq!(lapsed.attestation, word(&non_delivery(&payment_id, lapsed.quote_hash), &submission().verifier.account));
    let request = &state.reserved.requests[&reassignment_auction_of(&payment_id, 1)];
    assert_eq!((&request.blacklist[..], request.quote_deadline), (&[did(1)][..], lapsed.quote_deadline));
    let escrowed = Escrowed { amount: amount("1010"), reserved_for: lapsed.quote_hash };
    assert_eq!(request.escrowed, Some(escrowed));
    // Who faded bid all the same.
    let Some(PaymentEvent::AuctionClosed(closed)) = events.get(6) else { panic!("{events:?}") };
    assert_eq!((closed.addressed.len(), closed.quotes.len(), closed.dropped.len()), (3, 3, 1));
    assert!(state.now < 60, "{}", state.now);
}

#[tokio::test]
async fn losers_of_each_auction_hear_of_its_own_end_and_the_winner_does_not() {
    let (world, _) = live(World::new(Plot::Reassigns(course(1, 4)))).await;
    let state = world.state.lock().unwrap();
    let payment_id = submission().payment_id;
    let of = |auction_id: String| {
        let over = state.over.iter().filter(|over| over.auction_id == auction_id);
        over.flat_map(|over| over.settlers.clone()).collect::<Vec<_>>()
    };
    let first = [did(2), did(3), did(4)];
    assert_eq!(of(auction_of(&payment_id)), first);
    assert_eq!(of(reassignment_auction_of(&payment_id, 1)), [did(3), did(4)]);
    assert!(state.ends.is_empty(), "{:?}", state.ends);
}

#[tokio::test]
async fn each_settler_that_fades_is_followed_by_another_while_there_is_time() {
    let round = [&AUCTION[..], &REASSIGNED].concat();
    let (world, events) = whoever_dies(course(2, 4), &[&SECURED[..], &round, &round, &PAID].concat()).await;
    assert_eq!(winners(&events), [did(1), did(2), did(3)]);
    let state = world.state.lock().unwrap();
    let request = &state.reserved.requests[&reassignment_auction_of(&submission().payment_id, 2)];
    assert_eq!(request.blacklist, [did(1), did(2)]);
    let lapsed = lapses_of(&events);
    assert_eq!(request.escrowed.map(|escrowed| escrowed.reserved_for), Some(lapsed[1].quote_hash));
    assert_ne!(lapsed[0].attestation, lapsed[1].attestation);
}

#[tokio::test]
async fn the_money_goes_back_by_the_word_for_the_reservation_on_chain_when_nobody_is_left() {
    let round = [&AUCTION[..], &REASSIGNED].concat();
    let nobody = ["ReservationLapsed", "AuctionClosed"];
    for (course, rounds) in [(course(1, 1), 0), (course(2, 2), 1), (course(3, 3), 2)] {
        let expected = [&SECURED[..], &round.repeat(rounds), &nobody, &RETURNED].concat();
        let (world, events) = whoever_dies(course, &expected).await;
        returned_at_once(&world, &events);
        let failure = &failure(&events).failure;
        assert_eq!(failure.retry_classification, Some(RetryClassification::RetryWithNewRequestId));
        assert_eq!(lapses_of(&events).len(), rounds + 1);
    }
    // Above what is in escrow is no offer.
    let expected = [&SECURED[..], &nobody, &RETURNED].concat();
    let (world, events) = whoever_dies(disturbed(Chain::TooDear), &expected).await;
    returned_at_once(&world, &events);
}

#[tokio::test]
async fn a_deposit_of_more_lets_a_dearer_quote_take_the_winners_place() {
    let expected = [&SECURED[..], &AUCTION, &REASSIGNED, &PAID].concat();
    let (world, events) = whoever_dies(disturbed(Chain::LargerDeposit), &expected).await;
    let Some(PaymentEvent::EscrowSecured(secured)) = events.get(4) else { panic!("{events:?}") };
    assert_eq!(secured.amount, amount("1013"), "what the dearest of the next asks for");
    assert_eq!(world.state.lock().unwrap().reserved.current().source_amount, amount("1011"));
    // Without more to deposit, or where the rule has none, it is what the winner asks for, and nobody follows.
    let expected = [&SECURED[..], &["ReservationLapsed", "AuctionClosed"], &RETURNED].concat();
    whoever_dies(disturbed(Chain::LargerRefused), &expected).await;
    let rule = ReassignmentRule { deposits_for_next: false, ..ReassignmentRule::DEFAULT };
    let (_, events) = live_by(rule, World::new(Plot::Reassigns(disturbed(Chain::LargerDeposit)))).await;
    assert_eq!(types(&events), expected);
}

#[tokio::test]
async fn the_next_quote_is_awarded_when_the_next_winner_is_silent() {
    let lost = ["AwardLapsed", "QuoteAwarded"];
    let expected = [&SECURED[..], &AUCTION, &lost, &REASSIGNED, &PAID].concat();
    let (world, events) = whoever_dies(disturbed(Chain::NextIsSilent), &expected).await;
    assert_eq!(winners(&events), [did(1), did(2), did(3)]);
    let state = world.state.lock().unwrap();
    let auction_id = reassignment_auction_of(&submission().payment_id, 1);
    let ends: Vec<_> = state.ends.iter().map(|end| (&end.settler, end.code.as_str(), &end.auction_id)).collect();
    assert_eq!(ends, [(&did(2), "AWARD_UNANSWERED", &auction_id)]);
}

#[tokio::test]
async fn the_money_goes_back_when_no_winner_of_the_next_auction_stands_by_its_quote() {
    let lost = ["AwardLapsed", "QuoteAwarded"];
    let expected = [&SECURED[..], &AUCTION, &lost, &lost, &["AwardLapsed"], &RETURNED].concat();
    let (world, events) = whoever_dies(disturbed(Chain::NextsRefuse), &expected).await;
    returned_at_once(&world, &events);
    let state = world.state.lock().unwrap();
    let ended: Vec<_> = state.ends.iter().map(|end| &end.settler).collect();
    assert_eq!(ended, [&did(2), &did(3), &did(4)]);
    assert!(state.reserved.signed.is_empty());
}

#[tokio::test]
async fn a_reassignment_that_never_comes_is_waited_for_up_to_the_promise_and_then_the_money_goes_back() {
    let prepared = ["ReassignmentPrepared"];
    for (chain, signed) in [(Chain::Refuses, &[][..]), (Chain::NeverLands, &prepared[..])] {
        let expected = [&SECURED[..], &AUCTION, signed, &RETURNED].concat();
        let (world, events) = whoever_dies(disturbed(chain), &expected).await;
        returned_at_once(&world, &events);
        // Whoever was shown it could bring it up to then.
        assert!(failure(&events).failed_at > at(34), "{chain:?}: {}", failure(&events).failed_at);
        let state = world.state.lock().unwrap();
        let ends: Vec<_> = state.ends.iter().map(|end| (&end.settler, end.code.as_str())).collect();
        assert_eq!(ends, [(&did(2), "NOT_DEPOSITED")], "{chain:?}");
    }
}

#[tokio::test]
async fn a_reservation_that_nobody_here_knows_is_said_to_be_unknown() {
    let expected = [&SECURED[..], &AUCTION, &["ReassignmentPrepared"], &RETURNED].concat();
    let (world, events) = whoever_dies(disturbed(Chain::Lost), &expected).await;
    let reason = &failure(&events).failure;
    assert_eq!(reason.retry_classification, Some(RetryClassification::ReconcileThenDecide), "{}", reason.message);
    let state = world.state.lock().unwrap();
    assert_eq!(state.ends.iter().map(|end| &end.settler).collect::<Vec<_>>(), [&did(2)]);
}

#[tokio::test]
async fn a_reassignment_that_somebody_else_brings_is_adopted() {
    let expected = [&SECURED[..], &AUCTION, &["EscrowReassigned"], &PAID].concat();
    let (world, _) = whoever_dies(disturbed(Chain::Usurped), &expected).await;
    assert!(world.state.lock().unwrap().reserved.signed.is_empty());
}

#[tokio::test]
async fn a_reassignment_is_tried_again_or_repriced_until_it_lands() {
    let again = ["ReassignmentPrepared", "ReassignmentAbandoned"];
    let expected = [&SECURED[..], &AUCTION, &again, &REASSIGNED, &PAID].concat();
    whoever_dies(disturbed(Chain::Superseded), &expected).await;
    let repriced = ["ReassignmentRepriced"; 2];
    let expected = [&SECURED[..], &AUCTION, &REASSIGNED[..1], &repriced, &REASSIGNED[1..], &PAID].concat();
    whoever_dies(disturbed(Chain::Dear), &expected).await;
}

#[tokio::test]
async fn an_escrow_that_a_stranger_cancels_meanwhile_ends_the_payment() {
    let expected = [&SECURED[..], &AUCTION, &["Failed", "EscrowRefunded"]].concat();
    let (world, events) = whoever_dies(disturbed(Chain::Cancelled), &expected).await;
    returned_at_once(&world, &events);
    let state = world.state.lock().unwrap();
    assert_eq!(state.ends.iter().map(|end| &end.settler).collect::<Vec<_>>(), [&did(2)]);
    assert!(state.refunds.is_empty());
}

#[tokio::test]
async fn without_a_rule_or_where_verifiers_or_escrow_know_no_reassignment_the_money_goes_back_at_once() {
    let expected = [&SECURED[..], &RETURNED].concat();
    for chain in [Chain::OldVerifiers, Chain::OldEscrow] {
        let (world, _) = whoever_dies(disturbed(chain), &expected).await;
        assert!(world.state.lock().unwrap().now < 40);
    }
    let never = ReassignmentRule { reassignments_max: 0, ..ReassignmentRule::DEFAULT };
    let (world, events) = live_by(never, World::new(Plot::Reassigns(course(1, 4)))).await;
    assert_eq!(types(&events), expected);
    assert!(world.state.lock().unwrap().now < 40);
    let once = ReassignmentRule { reassignments_max: 1, ..ReassignmentRule::DEFAULT };
    let (_, events) = live_by(once, World::new(Plot::Reassigns(course(2, 4)))).await;
    assert_eq!(types(&events), [&SECURED[..], &AUCTION, &REASSIGNED, &RETURNED].concat());
}

async fn live_by(rule: ReassignmentRule, world: World) -> (Arc<World>, Vec<PaymentEvent>) {
    let world = Arc::new(world);
    let payment = submit(&world).await;
    let options = Options { reassignment: rule, ..Options::default() };
    engine_with(&world, options).drive(&payment).await.unwrap();
    let events = history(&world, &payment).await;
    (world, events)
}

#[tokio::test]
async fn two_of_three_lapse_each_reservation_and_sign_anew_for_the_next() {
    let signed = ["NonDeliveryAttested"; 2];
    let round = [&signed[..], &AUCTION, &REASSIGNED].concat();
    let paid = ["FulfillmentSeen", "DeliveryAttested", "DeliveryAttested", "FulfillmentConfirmed", "EscrowReleased"];
    for chain in [Chain::Undisturbed, Chain::OneHangs] {
        let course = Course { is_set: true, chain, ..course(2, 4) };
        let (_, events) = whoever_dies(course, &[&SECURED[..], &round, &round, &paid].concat()).await;
        assert_eq!(lapses_of(&events).len(), 2, "{chain:?}");
    }
}

/// Faults take time, of which the promise of the next has little: the money goes one way or the other, and once.
#[tokio::test]
async fn faults_at_one_call_in_four_to_nine_leave_a_reassigned_escrow_one_way_out() {
    let mut paid = 0;
    for one_in in 4..10 {
        let world = World { fault_one_in: Some(one_in), ..World::new(Plot::Reassigns(course(1, 4))) };
        let (world, events) = live(world).await;
        let state = world.state.lock().unwrap();
        let is_reassigned = types(&events).contains(&"EscrowReassigned");
        assert_eq!(state.reserved.reservations.len(), 1 + usize::from(is_reassigned), "one call in {one_in}");
        let is_paid = types(&events).last() == Some(&"EscrowReleased");
        assert_eq!((is_paid, state.refunds.len()), (!state.reserved.deliveries.is_empty(), usize::from(!is_paid)));
        assert_eq!(types(&events).contains(&"Failed"), !is_paid, "one call in {one_in}");
        paid += usize::from(is_paid);
    }
    assert!(paid > 2, "{paid} of them were paid");
}

/// The copy has the payment up to `copied` events; the chain has gone as far as in the world that they are from, or not as far.
#[tokio::test]
async fn a_payment_that_a_copy_has_before_its_reassignment_is_not_reassigned() {
    let plot = Plot::Reassigns(course(1, 4));
    let (before, events) = live(World::new(plot)).await;
    for (copied, is_reassigned) in [(6, false), (8, false), (6, true), (8, true)] {
        let world = Arc::new(World::new(plot));
        {
            let (mut state, before) = (world.state.lock().unwrap(), before.state.lock().unwrap());
            state.now = 25;
            state.effective = before.effective.clone();
            state.reserved.winners = before.reserved.winners.clone();
            let reserved = &before.reserved.reservations[..1 + usize::from(is_reassigned)];
            state.reserved.reservations = reserved.iter().map(|(of, _)| (of.clone(), 20)).collect();
        }
        let again = restored::copied(&world, &events[..copied]).await;
        assert_eq!(types(&again)[copied..], RETURNED, "{copied}, {is_reassigned}");
        let failure = &failure(&again).failure;
        assert_eq!(failure.retry_classification, Some(RetryClassification::ReconcileThenDecide));
        let state = world.state.lock().unwrap();
        // The word does not return what is reserved for another.
        assert_eq!(state.now > 100, is_reassigned, "{copied}");
        assert!(state.awards == 0 && state.ends.is_empty());
    }
}

/// The copy has the escrow for the first, and the chain has it reassigned to the next, who has delivered or does not.
#[tokio::test]
async fn an_escrow_that_is_reserved_for_a_settler_that_the_copy_does_not_know_is_left_to_that_one() {
    let plot = Plot::Reassigns(course(1, 4));
    let (before, events) = live(World::new(plot)).await;
    for is_delivered in [true, false] {
        let world = Arc::new(World::new(plot));
        {
            let (mut state, before) = (world.state.lock().unwrap(), before.state.lock().unwrap());
            state.now = 40;
            state.effective = before.effective.clone();
            state.reserved.winners = before.reserved.winners.clone();
            state.reserved.reservations = before.reserved.reservations.clone();
            state.reserved.attested = before.reserved.attested.filter(|_| is_delivered);
        }
        let again = restored::copied(&world, &events[..5]).await;
        let ends: &[&str] = if is_delivered { &["Failed", "EscrowReleased"] } else { &RETURNED };
        assert_eq!(&types(&again)[5..], ends);
        let failed = failure(&again);
        assert_eq!(failed.refund, RefundDue::AfterWindow);
        assert_eq!(failed.failure.retry_classification, Some(RetryClassification::ReconcileThenDecide));
        let state = world.state.lock().unwrap();
        assert_eq!((state.awards, state.now > 100), (0, true), "it is looked at when the window opens");
    }
}

/// Whether what must hold breaks when the engine is broken in this way.
#[cfg(debug_assertions)]
async fn is_caught(mutant: &'static str, course: Course, expected: &[&str]) -> bool {
    events::mutants::choose(Some(mutant));
    let ended = tokio::spawn(live(World::new(Plot::Reassigns(course)))).await;
    events::mutants::choose(None);
    ended.is_err() || ended.is_ok_and(|(_, events)| types(&events) != expected)
}

#[cfg(debug_assertions)]
#[tokio::test]
async fn engines_that_are_broken_are_caught() {
    let one = [&SECURED[..], &AUCTION, &REASSIGNED, &PAID].concat();
    let two = [&SECURED[..], &AUCTION, &REASSIGNED, &AUCTION, &REASSIGNED, &PAID].concat();
    let signed = ["NonDeliveryAttested"; 2];
    let paid = ["FulfillmentSeen", "DeliveryAttested", "DeliveryAttested", "FulfillmentConfirmed", "EscrowReleased"];
    let round = [&signed[..], &AUCTION, &REASSIGNED].concat();
    let set = [&SECURED[..], &round, &round, &paid].concat();
    let dear = [&SECURED[..], &["ReservationLapsed", "AuctionClosed"], &RETURNED].concat();
    for (mutant, course, expected) in [
        ("reassigned-before-evidence", course(1, 4), &one),
        ("reassigned-taken-for-granted", course(1, 4), &one),
        ("faded-settler-wins-again", course(2, 4), &two),
        ("round-keeps-attestations", Course { is_set: true, ..course(2, 4) }, &set),
        ("escrowed-cap-not-compared", disturbed(Chain::TooDear), &dear),
    ] {
        assert!(!is_caught("none", course, expected).await, "{mutant}");
        assert!(is_caught(mutant, course, expected).await, "{mutant}");
    }
}
