//! What members of a verifier set signed, held against chains that tell what the test has them tell.

use std::collections::HashMap;

use chains::escrow::State;
use events::{
    ChainId, Failure, StreamId,
    event::{EscrowReleased, FulfillmentConfirmed, FulfillmentSeen},
};
use sagas::payment;

use super::*;
use crate::{
    consistency::tests::{
        at, examined, failed_with, inclusion, member, quote, refunded, secured_for, submitted, verifier_set,
    },
    examine,
    onchain::{
        Chains,
        told::{Held, signature, told},
    },
};

/// A destination that holds this of the quote; `None` where it can't be asked.
fn destination(delivery: Option<DeliveryState>) -> (ChainId, AuditedChain) {
    let deliveries = delivery.map(|delivery| (quote(1, "1010").hash(), delivery)).into_iter().collect();
    told(10, Held { deliveries, ..Held::escrow(State::Reserved) })
}

fn source(escrow: State) -> (ChainId, AuditedChain) {
    told(1, Held::escrow(escrow))
}

/// What the source and the destination, which holds this delivery, make of a history with a commit for each event.
async fn found_on(nodes: HashMap<ChainId, AuditedChain>, events: Vec<PaymentEvent>) -> Vec<Finding> {
    let payment = payment::fold(&events).unwrap().unwrap();
    let stream_id = StreamId::from(&payment.submitted.payment_id);
    let state = examine::State::Payment(Box::new(payment.clone()));
    let examined = examined(stream_id, state, events.into_iter().map(|event| vec![Event::from(event)]));
    let found = Chains { nodes, lag_seconds: 0 }.check(&examined, &payment).await;
    found.into_iter().filter(|finding| finding.check != "open").collect()
}

async fn found(delivery: Option<DeliveryState>, events: Vec<PaymentEvent>) -> Vec<Finding> {
    let escrow = match events.last().map(PaymentEvent::type_name) {
        Some("EscrowReleased") => State::Released,
        Some("EscrowRefunded") => State::Refunded,
        _ => State::Reserved,
    };
    found_on([source(escrow), destination(delivery)].into(), events).await
}

fn statement(fact: Fact) -> Statement {
    let (payment_id, signed) = (submitted(15).payment_id, quote(1, "1010"));
    match fact {
        Fact::Delivered => Statement::Delivery {
            payment_id,
            quote_hash: signed.hash(),
            payout_account: signed.quote().payout_account.clone(),
        },
        Fact::NotDelivered => Statement::NonDelivery { payment_id, quote_hash: signed.hash() },
    }
}

fn signed(fact: Fact, byte: u8) -> MemberAttested {
    let member = member(byte).account;
    MemberAttested { signature: signature(&statement(fact), &member), member, attested_at: at(62) }
}

fn delivered(byte: u8) -> PaymentEvent {
    PaymentEvent::DeliveryAttested(signed(Fact::Delivered, byte))
}

fn not_delivered(byte: u8) -> PaymentEvent {
    PaymentEvent::NonDeliveryAttested(signed(Fact::NotDelivered, byte))
}

/// The word of two of three.
fn word(fact: Fact, by: [u8; 2]) -> String {
    let signed = by.map(|byte| signed(fact, byte));
    verifier_set(2, 3).attestation(signed.iter().map(|by| (&by.member, by.signature.as_str()))).unwrap()
}

fn confirmed(attestation: String) -> PaymentEvent {
    let (confirmed_at, release_from) = (at(66), None);
    PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
        inclusion: inclusion(59),
        attestation,
        confirmed_at,
        release_from,
    })
}

fn failed(attestation: String) -> PaymentEvent {
    failed_with(Failure::SETTLEMENT_FAILED, RefundDue::ByNonDelivery { attestation })
}

/// A history of a set of two of three: secured as events 1 to 4, seen as the fifth, and then `then`.
fn seen(then: impl IntoIterator<Item = PaymentEvent>) -> Vec<PaymentEvent> {
    let seen = PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(59) });
    secured_for(verifier_set(2, 3)).into_iter().chain([seen]).chain(then).collect()
}

/// Severity, check and sequence of each finding.
fn short(found: &[Finding]) -> Vec<(Severity, &str, Option<u64>)> {
    found.iter().map(|finding| (finding.severity, finding.check.as_str(), finding.location.sequence)).collect()
}

const WRONG: Severity = Severity::Contradiction;

#[tokio::test]
async fn members_that_say_what_is_so_are_not_found() {
    let there = Some(DeliveryState::Final(inclusion(59)));
    let confirmed = seen([delivered(1), delivered(3), confirmed(word(Fact::Delivered, [1, 3]))]);
    assert_eq!(found(there, confirmed).await, []);
    let failed = seen([not_delivered(2), not_delivered(1), failed(word(Fact::NotDelivered, [1, 2]))]);
    assert_eq!(found(Some(DeliveryState::Impossible), failed).await, []);
}

#[tokio::test]
async fn a_member_that_lies_is_named_and_moved_nothing_alone() {
    for lied in 1..=3 {
        let others: Vec<u8> = (1..=3).filter(|byte| *byte != lied).collect();
        let [one, two] = others[..] else { unreachable!() };
        let account = member(lied).account;

        let honest = failed(word(Fact::NotDelivered, [one, two]));
        let events = seen([not_delivered(one), delivered(lied), not_delivered(two), honest]);
        let found_here = found(Some(DeliveryState::Impossible), events).await;
        assert_eq!(short(&found_here), [(WRONG, "verifier", Some(7))]);
        let said = &found_here[0].what;
        assert!(
            said.starts_with(&format!("verifier {account} attested a delivery that eip155:10 does not hold; ")),
            "{said}"
        );
        assert!(said.ends_with("alone it moved nothing: 1 signed that, of the 2 who have to"), "{said}");

        let honest = confirmed(word(Fact::Delivered, [one, two]));
        let events = seen([delivered(one), not_delivered(lied), delivered(two), honest]);
        let found_here = found(Some(DeliveryState::Final(inclusion(59))), events).await;
        assert_eq!(short(&found_here), [(WRONG, "verifier", Some(7))]);
        let said = &found_here[0].what;
        assert!(
            said.starts_with(&format!("verifier {account} attested that nothing was delivered, and eip155:10 ")),
            "{said}"
        );
        assert!(said.ends_with("alone it moved nothing: 1 signed that, of the 2 who have to"), "{said}");
    }
}

#[tokio::test]
async fn members_that_lie_together_are_all_named_with_what_they_moved() {
    let together = [delivered(1), delivered(2), confirmed(word(Fact::Delivered, [1, 2]))];
    let released = PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(70), claims: Vec::new() });
    let weight =
        |found: &[Finding]| found.iter().map(|one| one.what.split("; ").nth(1).unwrap().to_owned()).collect::<Vec<_>>();
    let two = [(WRONG, "verifier", Some(6)), (WRONG, "verifier", Some(7))];

    let found_here = found(Some(DeliveryState::Impossible), seen(together.clone())).await;
    assert_eq!(short(&found_here), two);
    assert_eq!(weight(&found_here), ["2 signed that, of the 2 who have to, which moves the escrow"; 2]);

    let found_here = found(Some(DeliveryState::Impossible), seen(together.into_iter().chain([released]))).await;
    assert_eq!(short(&found_here), two);
    assert_eq!(weight(&found_here), ["2 signed that, of the 2 who have to, and it moved the escrow"; 2]);

    let back = [not_delivered(1), not_delivered(2), failed(word(Fact::NotDelivered, [1, 2])), refunded("1010")];
    let found_here = found(Some(DeliveryState::Final(inclusion(59))), seen(back.clone())).await;
    assert_eq!(short(&found_here), two);
    // After its window everybody may bring it back.
    assert_eq!(weight(&found_here), ["2 signed that, of the 2 who have to, which moves the escrow"; 2]);
    let mut early = back;
    let PaymentEvent::EscrowRefunded(refunded) = &mut early[3] else { unreachable!() };
    refunded.inclusion = inclusion(70);
    let found_here = found(Some(DeliveryState::Final(inclusion(59))), seen(early)).await;
    assert_eq!(weight(&found_here), ["2 signed that, of the 2 who have to, and it moved the escrow"; 2]);
}

#[tokio::test]
async fn a_signature_that_is_not_the_members_is_found_and_blames_nobody() {
    for (forged, delivery) in [
        (MemberAttested { signature: signed(Fact::Delivered, 2).signature, ..signed(Fact::Delivered, 1) }, true),
        (MemberAttested { signature: signed(Fact::NotDelivered, 1).signature, ..signed(Fact::Delivered, 1) }, true),
        (MemberAttested { signature: signed(Fact::Delivered, 1).signature, ..signed(Fact::NotDelivered, 1) }, false),
        (MemberAttested { signature: "0x".to_owned(), ..signed(Fact::NotDelivered, 1) }, false),
    ] {
        let (event, state) = match delivery {
            true => (PaymentEvent::DeliveryAttested(forged), DeliveryState::Impossible),
            false => (PaymentEvent::NonDeliveryAttested(forged), DeliveryState::Final(inclusion(59))),
        };
        let found_here = found(Some(state), seen([event])).await;
        assert_eq!(short(&found_here), [(WRONG, "attestation", Some(6))]);
        assert!(found_here[0].what.contains(member(1).account.as_str()), "{}", found_here[0].what);
    }
    // The word itself is judged as the escrow judges it.
    let there = Some(DeliveryState::Final(inclusion(59)));
    let wrong = confirmed(word(Fact::NotDelivered, [1, 2]));
    let found_here = found(there, seen([delivered(1), delivered(2), wrong])).await;
    assert_eq!(short(&found_here), [(WRONG, "attestation", Some(8))]);
}

#[tokio::test]
async fn what_is_not_settled_or_cannot_be_asked_blames_nobody() {
    for state in [DeliveryState::NotSeen, DeliveryState::Seen(inclusion(59))] {
        for event in [delivered(1), not_delivered(1)] {
            let found_here = found(Some(state.clone()), seen([event])).await;
            assert_eq!(short(&found_here), [(Severity::Open, "verifier", Some(6))]);
        }
    }
    let silent = found(None, seen([delivered(1), delivered(2)])).await;
    assert_eq!(short(&silent), [(Severity::Unverifiable, "verifier", Some(6))]);
    let unknown = found_on([source(State::Reserved)].into(), seen([not_delivered(1)])).await;
    assert_eq!(short(&unknown), [(Severity::Unverifiable, "chain", Some(6))]);
    let sourceless = [destination(Some(DeliveryState::Impossible))].into();
    assert_eq!(short(&found_on(sourceless, seen([delivered(1)])).await), [(Severity::Unverifiable, "chain", Some(1))]);
}
