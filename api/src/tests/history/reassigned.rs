//! Payments whose settler did not deliver: what their timeline and their status tell of the next, or of the end without one.

use events::event::{AwardLapsed, EscrowReassigned, ReservationLapsed, TransactionAbandoned};

use super::*;

fn lapsed() -> PaymentEvent {
    PaymentEvent::ReservationLapsed(ReservationLapsed {
        settler: "did:web:1".parse().unwrap(),
        quote_hash: Hash32([5; 32]),
        attestation: "0x22".to_owned(),
        quote_deadline: at("2040-01-01T00:00:00Z"),
        lapsed_at: at("2030-01-01T00:00:00Z"),
    })
}

fn reassignment(attempt: u32, byte: u8) -> TransactionPrepared {
    let PaymentEvent::DepositPrepared(deposit) = prepared() else { unreachable!() };
    TransactionPrepared { attempt, transaction_hash: Hash32([byte; 32]).to_string(), ..deposit }
}

/// A payment whose settler did not deliver, although a delivery was seen.
async fn reopened(gateway: &Gateway) -> PaymentId {
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let begun = [vec![closed(&[]), awarded(DOCUMENT)], vec![prepared()], vec![secured()], vec![seen()], vec![lapsed()]];
    for events in begun {
        gateway.append(&id, events).await;
    }
    id
}

/// The events from the lapse on, each with its status and its cause.
fn since_lapse(timeline: &Value) -> Vec<[&str; 3]> {
    let entries = timeline["entries"].as_array().unwrap().iter();
    let told = entries.map(|entry| ["event", "status", "cause"].map(|member| entry[member].as_str().unwrap()));
    told.skip_while(|[event, ..]| *event != "ReservationLapsed").collect()
}

#[tokio::test]
async fn a_timeline_tells_of_the_settler_that_takes_anothers_place() {
    let gateway = Gateway::new();
    let id = reopened(&gateway).await;
    let [timeline, status] = ["timeline", "status"].map(|path| format!("/v1/payments/{id}/{path}"));
    let waiting = gateway.get(&status).await.expect(200).body;
    assert_eq!(waiting["status"], "pending");
    assert!(waiting["transactions"]["fulfillment"].is_null() && waiting["transactions"]["reassignment"].is_null());

    let abandoned =
        TransactionAbandoned { attempt: 1, evidence: "x".to_owned(), abandoned_at: at("2030-01-01T00:00:01Z") };
    let award_lapsed = AwardLapsed {
        settler: "did:web:2".parse().unwrap(),
        quote_hash: Hash32([5; 32]),
        refusal: None,
        lapsed_at: at("2030-01-01T00:00:01Z"),
    };
    let PaymentEvent::AuctionClosed(mut second) = closed(&[]) else { unreachable!() };
    second.closed_at = at("2039-12-31T23:59:59Z");
    for events in [
        vec![PaymentEvent::AuctionClosed(second), awarded(DOCUMENT)],
        vec![PaymentEvent::AwardLapsed(award_lapsed), awarded(DOCUMENT)],
        vec![PaymentEvent::ReassignmentPrepared(reassignment(1, 6))],
        vec![PaymentEvent::ReassignmentRepriced(reassignment(1, 7))],
        vec![PaymentEvent::ReassignmentAbandoned(abandoned)],
        vec![PaymentEvent::ReassignmentPrepared(reassignment(2, 8))],
    ] {
        gateway.append(&id, events).await;
    }
    let sent = gateway.get(&status).await.body["transactions"]["reassignment"].clone();
    assert_eq!(sent, json!({"transaction_hash": Hash32([8; 32]).to_string(), "chain_id": "eip155:31337"}));
    let reassigned = EscrowReassigned { inclusion: inclusion(31_337, 8) };
    gateway.append(&id, vec![PaymentEvent::EscrowReassigned(reassigned)]).await;
    let told = gateway.get(&timeline).await.expect(200).body;
    assert_eq!(
        since_lapse(&told),
        [
            ["ReservationLapsed", "pending", "non_delivery_attested"],
            // Before the end of its own window, which is later than that of the first auction.
            ["AuctionClosed", "pending", "all_settlers_answered"],
            ["QuoteAwarded", "pending", "best_quote"],
            ["AwardLapsed", "pending", "award_unanswered"],
            ["QuoteAwarded", "pending", "best_quote"],
            ["ReassignmentPrepared", "pending", "award_accepted"],
            ["ReassignmentRepriced", "pending", "fee_too_low"],
            ["ReassignmentAbandoned", "pending", "cannot_land"],
            ["ReassignmentPrepared", "pending", "attempt_failed"],
            ["EscrowReassigned", "pending", "reassignment_settled"],
        ]
    );
    let entry = |event: &str| told["entries"].as_array().unwrap().iter().find(|entry| entry["event"] == event).unwrap();
    let lapsed = entry("ReservationLapsed");
    assert!(lapsed["summary"].as_str().unwrap().contains("another is asked to deliver in its place"), "{lapsed}");
    assert_eq!(lapsed["data"]["quote_hash"], Hash32([5; 32]).to_string());
    assert!(!told.to_string().contains("0x22"), "the verifier's signature");
    let there = json!({
        "transaction_hash": Hash32([8; 32]).to_string(), "chain_id": "eip155:31337", "block_number": 8, "settled": true,
    });
    assert_eq!(entry("EscrowReassigned")["transactions"]["reassignment"], there);
    assert_eq!(gateway.get(&status).await.body["transactions"]["reassignment"], there);
}

#[tokio::test]
async fn a_timeline_tells_that_nobody_takes_anothers_place() {
    let refund = || RefundDue::ByNonDelivery { attestation: "0x22".to_owned() };
    let failed = || {
        let PaymentEvent::Failed(failure) = failed(no_quotes()) else { unreachable!() };
        PaymentEvent::Failed(Box::new(Failed { refund: refund(), ..*failure }))
    };
    let award_lapsed = PaymentEvent::AwardLapsed(AwardLapsed {
        settler: "did:web:2".parse().unwrap(),
        quote_hash: Hash32([5; 32]),
        refusal: Some("QUOTE_EXPIRED".to_owned()),
        lapsed_at: at("2030-01-01T00:00:01Z"),
    });
    let gateway = Gateway::new();
    let id = reopened(&gateway).await;
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![award_lapsed, failed()]).await;
    let told = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    let course = since_lapse(&told);
    assert_eq!(
        course[course.len() - 2..],
        [["AwardLapsed", "failed", "award_refused"], ["Failed", "failed", "not_reassigned"]]
    );
    let entries = told["entries"].as_array().unwrap();
    let [lost, last] = [2, 1].map(|from_end| &entries[entries.len() - from_end]);
    assert!(lost["summary"].as_str().unwrap().ends_with("no other quote is left."), "{lost}");
    assert_eq!(last["data"]["refund"], "by_cancellation");

    // A failure in the first round is told as ever.
    let mut other = body();
    other["request_id"] = "order-2".into();
    let id = gateway.post(&other).await.expect(200).payment_id();
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![secured()]).await;
    gateway.append(&id, vec![failed()]).await;
    let told = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    assert_ne!(told["entries"].as_array().unwrap().last().unwrap()["cause"], "not_reassigned");
}
