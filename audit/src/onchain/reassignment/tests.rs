//! Escrows that were reassigned, held against chains that tell what the test has them tell.

use std::collections::HashMap;

use chains::escrow::State;
use events::{
    Account, Hash32, StreamId,
    event::{EscrowReleased, FulfillmentConfirmed, FulfillmentSeen, MemberAttested},
    quote::SignedQuote,
    time::unix_seconds,
};
use sagas::{
    payment,
    ports::{DeliveryState, Statement},
};

use super::*;
use crate::{
    Finding,
    consistency::{
        reassignment::tests::{again, awarded, closed, first, lapsed, reassigned, returned, secured},
        tests::{at, examined, inclusion, member, refunded, secured_for, submitted, verifier_set},
    },
    examine,
    onchain::{
        Chains,
        told::{Held, signature, told},
    },
};

fn second() -> SignedQuote {
    again(1, 2, "1005", 44)
}

/// That nothing was delivered for `signed`, by the single verifier.
fn denial(signed: &SignedQuote) -> String {
    let submitted = submitted(15);
    signature(
        &Statement::NonDelivery { payment_id: submitted.payment_id, quote_hash: signed.hash() },
        &submitted.verifier.account,
    )
}

/// Secured as events 1 to 4, lapsed as the fifth, sold again as the sixth and seventh, reassigned at 40 as the eighth, and then
/// `then`.
fn history(then: impl IntoIterator<Item = PaymentEvent>) -> Vec<PaymentEvent> {
    let sold = [
        lapsed(&first(), &denial(&first()), 36),
        PaymentEvent::AuctionClosed(closed(&[second()], 38)),
        awarded(&second(), 38),
        reassigned(40),
    ];
    secured().into_iter().chain(sold).chain(then).collect()
}

/// The second settler delivers, and is paid.
fn paid() -> Vec<PaymentEvent> {
    let delivery = Statement::Delivery {
        payment_id: submitted(15).payment_id,
        quote_hash: second().hash(),
        payout_account: second().quote().payout_account.clone(),
    };
    let confirmed = FulfillmentConfirmed {
        inclusion: inclusion(43),
        attestation: signature(&delivery, &submitted(15).verifier.account),
        confirmed_at: at(45),
        release_from: None,
    };
    history([
        PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(43) }),
        PaymentEvent::FulfillmentConfirmed(confirmed),
        PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(70), claims: Vec::new() }),
    ])
}

/// A source that has it all: reassigned at 40, and reserved for the second quote.
fn source(escrow: State) -> Held {
    let reassigned = vec![(first().hash(), second().hash(), inclusion(40))];
    Held { reassigned, reserved_for: Some(second().hash()), ..Held::escrow(escrow) }
}

/// A destination on which the second settler delivered, and the first did not.
fn destination() -> HashMap<Hash32, DeliveryState> {
    [(first().hash(), DeliveryState::Impossible), (second().hash(), DeliveryState::Final(inclusion(43)))].into()
}

/// What these chains make of a history with a commit for each event, but that it is under way: severity, check and sequence.
async fn found(
    source: Held,
    deliveries: HashMap<Hash32, DeliveryState>,
    events: Vec<PaymentEvent>,
) -> Vec<(Severity, String, Option<u64>)> {
    let found = findings(source, deliveries, events).await;
    found.into_iter().map(|finding| (finding.severity, finding.check, finding.location.sequence)).collect()
}

async fn findings(source: Held, deliveries: HashMap<Hash32, DeliveryState>, events: Vec<PaymentEvent>) -> Vec<Finding> {
    let payment = payment::fold(&events).unwrap().unwrap();
    let stream_id = StreamId::from(&payment.submitted.payment_id);
    let state = examine::State::Payment(Box::new(payment.clone()));
    let examined = examined(stream_id, state, events.into_iter().map(|event| vec![Event::from(event)]));
    let nodes = [told(1, source), told(10, Held { deliveries, ..Held::escrow(State::Reserved) })].into();
    let found = Chains { nodes, lag_seconds: 0 }.check(&examined, &payment).await;
    found.into_iter().filter(|finding| !matches!(finding.check.as_str(), "open" | "prepared")).collect()
}

fn is(severity: Severity, check: &str, sequence: u64) -> (Severity, String, Option<u64>) {
    (severity, check.to_owned(), Some(sequence))
}

const WRONG: Severity = Severity::Contradiction;

#[tokio::test]
async fn a_payment_that_another_settler_delivered_is_proven() {
    assert_eq!(found(source(State::Reserved), destination(), history([])).await, []);
    assert_eq!(found(source(State::Released), destination(), paid()).await, []);
    // Returned by the second's non-delivery, after it faded, too.
    let back = [returned(&denial(&second())), refunded("1010")];
    let nowhere = [first(), second()].map(|signed| (signed.hash(), DeliveryState::Impossible));
    assert_eq!(found(source(State::Refunded), nowhere.into(), history(back)).await, []);
}

#[tokio::test]
async fn a_reassignment_that_the_chain_lacks_is_found() {
    let without = |reassigned| Held { reassigned, ..source(State::Released) };
    for lacking in [
        Vec::new(),
        vec![(second().hash(), first().hash(), inclusion(40))],
        vec![(first().hash(), second().hash(), inclusion(41))],
    ] {
        assert_eq!(found(without(lacking), destination(), paid()).await, [is(Severity::Missing, "reassignment", 8)]);
    }
    let for_the_first = Held { reassigned: Vec::new(), reserved_for: Some(first().hash()), ..source(State::Reserved) };
    assert_eq!(
        found(for_the_first.clone(), destination(), history([])).await,
        [is(Severity::Missing, "reassignment", 8), is(WRONG, "reassignment", 8), is(WRONG, "escrow", 4)]
    );
    // Its block is not deep enough yet by what the auditor requires: what is on record says nothing.
    let shallow = Held { settled_number: 6, ..for_the_first };
    assert_eq!(found(shallow, destination(), history([])).await, [is(Severity::Missing, "reassignment", 8)]);
}

#[tokio::test]
async fn a_reassignment_that_the_stream_does_not_know_is_found() {
    let third = again(1, 9, "1001", 58);
    let to = |hash, escrow, second| Held {
        reserved_for: Some(hash),
        settled_time: unix_seconds(at(second)),
        ..source(escrow)
    };
    // Under way it may be behind; its settler's time has to be over.
    let late = to(third.hash(), State::Reserved, 45);
    assert_eq!(
        found(late, destination(), history([])).await,
        [is(Severity::Missing, "reassignment", 8), is(WRONG, "escrow", 4)]
    );
    let early = to(third.hash(), State::Reserved, 44);
    assert_eq!(found(early, destination(), history([])).await, [is(Severity::Open, "reassignment", 8)]);
    // What has ended is not.
    let ended = to(third.hash(), State::Released, 44);
    assert_eq!(
        found(ended, destination(), paid()).await,
        [is(Severity::Missing, "reassignment", 11), is(WRONG, "escrow", 4)]
    );
    let back = history([returned(&denial(&second())), refunded("1010")]);
    let nowhere: HashMap<_, _> = [first(), second()].map(|signed| (signed.hash(), DeliveryState::Impossible)).into();
    assert_eq!(
        found(to(third.hash(), State::Refunded, 44), nowhere, back).await,
        [is(Severity::Missing, "reassignment", 10), is(WRONG, "escrow", 4)]
    );
}

#[tokio::test]
async fn a_reassignment_to_the_next_winner_is_told_in_its_time() {
    let mut awarded = history([]);
    awarded.pop();
    let at_second = |second: i64, escrow| Held { settled_time: unix_seconds(at(second)), ..source(escrow) };
    assert_eq!(
        found(at_second(44, State::Reserved), destination(), awarded.clone()).await,
        [is(Severity::Open, "reassignment", 7)]
    );
    assert_eq!(
        found(at_second(45, State::Reserved), destination(), awarded.clone()).await,
        [is(Severity::Missing, "reassignment", 7)]
    );
    // Given back by the first's word, as if it had never come.
    let given_up = awarded.into_iter().chain([returned(&denial(&first())), refunded("1010")]).collect();
    assert_eq!(
        found(at_second(41, State::Refunded), destination(), given_up).await,
        [is(Severity::Missing, "reassignment", 9)]
    );
}

#[tokio::test]
async fn a_verifier_that_denies_a_delivery_which_is_there_is_named() {
    let mut both = destination();
    both.insert(first().hash(), DeliveryState::Final(inclusion(34)));
    let found_here = findings(source(State::Released), both.clone(), paid()).await;
    let shown: Vec<_> =
        found_here.iter().map(|one| (one.severity, one.check.as_str(), one.location.sequence)).collect();
    assert_eq!(shown, [(WRONG, "delivery", Some(5)), (WRONG, "verifier", Some(5))]);
    let (settler, verifier) = (first().quote().settler.clone(), submitted(15).verifier.account);
    assert!(found_here[0].what.starts_with(&format!("settler {settler} delivered in time")), "{}", found_here[0].what);
    let said = &found_here[1].what;
    assert!(
        said.starts_with(&format!("verifier {verifier} attested that nothing was delivered, and eip155:10 ")),
        "{said}"
    );
    assert!(said.ends_with("1 signed that, of the 1 who have to, and it moved the escrow"), "{said}");

    // A word that is not the verifier's blames nobody, and the delivery is there all the same.
    let mut forged = paid();
    let PaymentEvent::ReservationLapsed(lapsed) = &mut forged[4] else { unreachable!() };
    lapsed.attestation = denial(&second());
    assert_eq!(
        found(source(State::Released), both.clone(), forged.clone()).await,
        [is(WRONG, "attestation", 5), is(WRONG, "delivery", 5)]
    );
    assert_eq!(found(source(State::Released), destination(), forged).await, [is(WRONG, "attestation", 5)]);

    // What is not settled, or cannot be asked, blames nobody.
    both.insert(first().hash(), DeliveryState::NotSeen);
    assert_eq!(found(source(State::Released), both.clone(), paid()).await, [is(Severity::Open, "verifier", 5)]);
    both.remove(&first().hash());
    assert_eq!(found(source(State::Released), both, paid()).await, [is(Severity::Unverifiable, "verifier", 5)]);
}

/// What a member of the set of two of three signs of `signed`.
fn by_member(statement: &Statement, byte: u8) -> MemberAttested {
    let member = member(byte).account;
    MemberAttested { signature: signature(statement, &member), member, attested_at: at(36) }
}

#[tokio::test]
async fn members_that_lie_about_a_reservation_that_lapsed_are_named_with_what_they_moved() {
    let payment_id = submitted(15).payment_id;
    let denies = Statement::NonDelivery { payment_id: payment_id.clone(), quote_hash: first().hash() };
    let payout_account = first().quote().payout_account.clone();
    let attests = Statement::Delivery { payment_id, quote_hash: first().hash(), payout_account };
    let denied = [1, 2].map(|byte| by_member(&denies, byte));
    let given: Vec<(&Account, &str)> = denied.iter().map(|by| (&by.member, by.signature.as_str())).collect();
    let word = verifier_set(2, 3).attestation(given).unwrap();
    let said = [
        PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(34) }),
        PaymentEvent::DeliveryAttested(by_member(&attests, 3)),
    ];
    let begin = secured_for(verifier_set(2, 3)).into_iter().take(1).chain(secured().into_iter().skip(1));
    let begin = begin.chain(said).chain(denied.map(PaymentEvent::NonDeliveryAttested));
    let then = [
        lapsed(&first(), &word, 36),
        PaymentEvent::AuctionClosed(closed(&[second()], 38)),
        awarded(&second(), 38),
        reassigned(40),
    ];
    let events: Vec<_> = begin.chain(then).collect();

    let weight =
        |found: &[Finding]| found.iter().map(|one| one.what.split("; ").nth(1).map(str::to_owned)).collect::<Vec<_>>();
    let honest = findings(source(State::Reserved), destination(), events.clone()).await;
    assert_eq!(honest.iter().map(|one| one.location.sequence).collect::<Vec<_>>(), [Some(6)]);
    let account = member(3).account;
    assert!(
        honest[0].what.starts_with(&format!("verifier {account} attested a delivery that eip155:10 does not hold"))
    );
    assert_eq!(weight(&honest), [Some("alone it moved nothing: 1 signed that, of the 2 who have to".to_owned())]);

    let mut there = destination();
    there.insert(first().hash(), DeliveryState::Final(inclusion(34)));
    let lied = findings(source(State::Reserved), there.clone(), events.clone()).await;
    let shown: Vec<_> = lied.iter().map(|one| (one.check.as_str(), one.location.sequence)).collect();
    assert_eq!(shown, [("delivery", Some(9)), ("verifier", Some(7)), ("verifier", Some(8))]);
    let moved = Some("2 signed that, of the 2 who have to, and it moved the escrow".to_owned());
    assert_eq!(weight(&lied)[1..], [moved.clone(), moved]);

    // Not reassigned yet: what they signed would move it.
    let unmoved = Held { reassigned: Vec::new(), reserved_for: Some(first().hash()), ..source(State::Reserved) };
    let lied = findings(unmoved, there, events[..9].to_vec()).await;
    let moves = Some("2 signed that, of the 2 who have to, which moves the escrow".to_owned());
    assert_eq!(weight(&lied)[1..], [moves.clone(), moves]);
}
