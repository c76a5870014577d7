//! The history of a payment: by its request id, and as a timeline.

mod payer_deposit;
mod reassigned;

use events::{
    ChainId,
    event::{
        AttestationAwaited, AttestationMissed, Claim, EscrowRefunded, EscrowReleased, Failed, FulfillmentFinalized,
        Inclusion, RefundDue, TransactionPrepared,
    },
};

use super::{
    reads::{DOCUMENT, awarded, closed, confirmed, failed, inclusion, no_quotes, prepared, secured, seen},
    *,
};

pub(super) fn released() -> PaymentEvent {
    released_with(Vec::new())
}

fn released_with(claims: Vec<Claim>) -> PaymentEvent {
    PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(31_337, 3), claims })
}

/// A payment that is delivered and released, in the commits of the engine.
pub(super) async fn completed(gateway: &Gateway) -> PaymentId {
    completed_with(gateway, "order-1", Vec::new()).await
}

async fn completed_with(gateway: &Gateway, request_id: &str, claims: Vec<Claim>) -> PaymentId {
    let mut body = body();
    body["request_id"] = request_id.into();
    let id = gateway.post(&body).await.expect(200).payment_id();
    gateway.append(&id, vec![closed(&[("did:web:1", "PRICE_ABOVE_CAP")]), awarded(DOCUMENT)]).await;
    for event in [prepared(), secured(), seen(), confirmed(), released_with(claims)] {
        gateway.append(&id, vec![event]).await;
    }
    id
}

#[tokio::test]
async fn a_payment_is_found_by_its_request_id() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let checksummed = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
    for blind in [false, true] {
        gateway.payments.set_blind(blind);
        for who in [
            format!("account={PAYER}"),
            format!("account={checksummed}"),
            format!("originator=eip155:{PAYER}"),
            format!("originator=eip155:{checksummed}"),
        ] {
            let answer = gateway.get(&format!("/v1/payments/resolve?request_id=order-1&{who}")).await.expect(200);
            let status = gateway.get(&format!("/v1/payments/{id}/status")).await.expect(200);
            assert_eq!(answer.text, status.text, "{who}");
        }
        for unknown in [
            format!("request_id=order-2&account={PAYER}"),
            format!("request_id=order-1&account={RECIPIENT}"),
            "request_id=order-1&account=TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t".to_owned(),
            "request_id=order-1&account=EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v".to_owned(),
            "request_id=order-1&originator=did:web:shop.example".to_owned(),
        ] {
            let answer = gateway.get(&format!("/v1/payments/resolve?{unknown}")).await;
            answer.expect_error(404, "PAYMENT_NOT_FOUND");
        }
    }
    for (query, named) in [
        ("", "request_id"),
        ("?request_id=order-1", "account, originator"),
        (&format!("?request_id=order-1&account={PAYER}&originator=eip155:{PAYER}"), "account, originator"),
        (&format!("?account={PAYER}"), "request_id"),
        (&format!("?request_id=a&request_id=b&account={PAYER}"), "request_id"),
        ("?request_id=order-1&account=nobody", "account"),
        ("?request_id=order-1&account=0x5AAeb6053f3e94c9b9a09f33669435e7ef1beaed", "account"),
        ("?request_id=order-1&originator=nobody", "originator"),
        ("?request_id=order-1&originator=eip155:nobody", "originator"),
    ] {
        let answer = gateway.get(&format!("/v1/payments/resolve{query}")).await;
        let answer = answer.expect_error(400, "INVALID_REQUEST");
        assert!(answer.message().starts_with(named), "{query}: {answer:?}");
    }
    let answer = gateway.get(&format!("/v1/payments/resolve?request_id=a%20b&account={PAYER}")).await;
    answer.expect_error(400, "INVALID_REQUEST_ID");
}

#[tokio::test]
async fn a_timeline_tells_every_stage_with_its_transactions() {
    let gateway = Gateway::new();
    let id = completed(&gateway).await;
    let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    assert_eq!(timeline["payment_id"], id.as_str());
    assert_eq!((&timeline["status"], &timeline["at_rest"]), (&json!("completed"), &json!(true)));
    let entries = timeline["entries"].as_array().unwrap();
    let shown: Vec<_> = entries
        .iter()
        .map(|entry| {
            assert!(entry["at"].as_str().unwrap().parse::<Timestamp>().is_ok());
            assert!(!entry["summary"].as_str().unwrap().is_empty());
            ["id", "event", "status", "cause"].map(|member| entry[member].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        shown,
        [
            ["1.0", "Submitted", "pending", "payment_request"],
            ["2.0", "AuctionClosed", "pending", "all_settlers_answered"],
            ["2.1", "QuoteAwarded", "pending", "best_quote"],
            ["3.0", "DepositPrepared", "pending", "award_accepted"],
            ["4.0", "EscrowSecured", "pending", "deposit_settled"],
            ["5.0", "FulfillmentSeen", "finalizing", "delivery_mined"],
            ["6.0", "FulfillmentConfirmed", "completed", "delivery_attested"],
            ["7.0", "EscrowReleased", "completed", "release_settled"],
        ]
    );
    let hash = |byte: u8| Hash32([byte; 32]).to_string();
    assert_eq!(
        entries[3]["transactions"],
        json!({"deposit": {"transaction_hash": hash(1), "chain_id": "eip155:31337"}})
    );
    assert_eq!(
        entries[6]["transactions"],
        json!({
            "fulfillment": {
                "transaction_hash": hash(2), "chain_id": "eip155:31338", "block_number": 2, "settled": true,
            },
        })
    );
    assert_eq!(entries[7]["transactions"]["release"]["transaction_hash"], hash(3));
    assert_eq!(entries[0]["data"]["fulfillment_amount"], "1000000");
    assert_eq!(entries[0]["data"]["source"], body()["source"]);
    assert_eq!(entries[1]["data"]["decline_summary"], json!([{"reason": "PRICE_ABOVE_CAP", "count": 1}]));
    assert_eq!(entries[4]["data"]["amount"], "5");
    // What only auditors see.
    let text = timeline.to_string();
    for hidden in ["raw", "signature", "attestation", "evidence", "did:web:1", "0x22"] {
        assert!(!text.contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn a_timeline_tells_why_a_payment_failed_and_how_its_refund_goes() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![prepared()]).await;
    gateway.append(&id, vec![secured()]).await;
    let PaymentEvent::Failed(failure) = failed(no_quotes()) else { unreachable!() };
    gateway
        .append(&id, vec![PaymentEvent::Failed(Box::new(Failed { refund: RefundDue::AfterWindow, ..*failure }))])
        .await;
    let path = format!("/v1/payments/{id}/timeline");
    let waiting = gateway.get(&path).await.expect(200).body;
    assert_eq!((&waiting["status"], &waiting["at_rest"]), (&json!("failed"), &json!(false)));
    let failed = waiting["entries"].as_array().unwrap().last().unwrap();
    assert_eq!(failed["data"]["refund"], "after_refund_window");
    let error = &failed["data"]["error"];
    assert_eq!(*error, gateway.get(&format!("/v1/payments/{id}/status")).await.body["error"]);

    let refunded = EscrowRefunded { inclusion: inclusion(31_337, 4), amount: "5".parse().unwrap(), claims: Vec::new() };
    gateway.append(&id, vec![PaymentEvent::EscrowRefunded(refunded)]).await;
    let done = gateway.get(&path).await.expect(200).body;
    assert_eq!(done["at_rest"], true);
    let refunded = done["entries"].as_array().unwrap().last().unwrap();
    assert_eq!(refunded["transactions"]["refund"]["transaction_hash"], Hash32([4; 32]).to_string());
    assert_eq!(refunded["data"]["amount"], "5");
}

#[tokio::test]
async fn money_that_could_not_be_handed_over_is_shown_with_the_call_that_brings_it() {
    let gateway = Gateway::new();
    let shown = |owner: &str, amount: &str| {
        let asset = body()["source"]["asset_identifier"].as_str().unwrap().to_owned();
        let token = asset.rsplit(':').next().unwrap().to_owned();
        json!({
            "owner": owner, "asset": asset, "amount": amount, "chain_id": "eip155:31337",
            "escrow_contract": ESCROW, "call": format!("claimFor({owner}, {token})"),
        })
    };
    let claim = |owner: &str, amount: &str| Claim { owner: owner.parse().unwrap(), amount: amount.parse().unwrap() };
    let read = async |id: &PaymentId| {
        let status = gateway.get(&format!("/v1/payments/{id}/status")).await.expect(200).body;
        let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
        let last = timeline["entries"].as_array().unwrap().last().unwrap().clone();
        (status, last)
    };

    let id = completed_with(&gateway, "order-1", vec![claim(RECIPIENT, "4"), claim(PAYER, "1")]).await;
    let (status, last) = read(&id).await;
    assert_eq!(status["claims"], json!([shown(RECIPIENT, "4"), shown(PAYER, "1")]));
    assert_eq!((&status["status"], &last["data"]["claims"]), (&json!("completed"), &status["claims"]));
    assert!(last["summary"].as_str().unwrap().contains("claim"), "{last}");
    let page = Request::get(format!("/v1/payments/{id}/status")).header("accept", "text/html");
    let page = gateway.send(page.body(Body::empty()).unwrap()).await.expect(200).text;
    assert!(page.contains("Waits in escrow") && page.contains(&format!("claimFor({PAYER}, ")), "{page}");

    let id = completed_with(&gateway, "order-2", Vec::new()).await;
    let (status, last) = read(&id).await;
    assert_eq!((&status["claims"], &last["data"]["claims"]), (&Value::Null, &Value::Null));
    assert_eq!(last["summary"], "The escrow paid the settler.");
}

#[tokio::test]
async fn a_timeline_shows_every_version_of_a_replaced_transaction() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let PaymentEvent::DepositPrepared(first) = prepared() else { unreachable!() };
    let version = |byte: u8| TransactionPrepared { transaction_hash: Hash32([byte; 32]).to_string(), ..first.clone() };
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![prepared()]).await;
    gateway.append(&id, vec![PaymentEvent::DepositRepriced(version(7))]).await;
    gateway.append(&id, vec![secured()]).await;
    let PaymentEvent::Failed(failure) = failed(no_quotes()) else { unreachable!() };
    gateway
        .append(&id, vec![PaymentEvent::Failed(Box::new(Failed { refund: RefundDue::AfterWindow, ..*failure }))])
        .await;
    gateway.append(&id, vec![PaymentEvent::RefundPrepared(version(8))]).await;
    gateway.append(&id, vec![PaymentEvent::RefundRepriced(version(9))]).await;
    let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    let entries = timeline["entries"].as_array().unwrap();
    for (event, stage, byte) in [
        ("DepositPrepared", "deposit", 1),
        ("DepositRepriced", "deposit", 7),
        ("RefundPrepared", "refund", 8),
        ("RefundRepriced", "refund", 9),
    ] {
        let entry = entries.iter().find(|entry| entry["event"] == event).unwrap();
        let shown = json!({stage: {"transaction_hash": Hash32([byte; 32]).to_string(), "chain_id": "eip155:31337"}});
        assert_eq!((&entry["transactions"], &entry["data"]), (&shown, &json!({"attempt": 1})), "{event}");
    }
    assert!(!timeline.to_string().contains("raw"));
}

#[tokio::test]
async fn a_missing_attestation_and_the_gateways_own_release_are_shown() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let PaymentEvent::DepositPrepared(first) = prepared() else { unreachable!() };
    let PaymentEvent::FulfillmentSeen(delivery) = seen() else { unreachable!() };
    let PaymentEvent::FulfillmentConfirmed(mut confirmation) = confirmed() else { unreachable!() };
    confirmation.release_from = Some(at("2030-01-01T00:05:00Z"));
    let version = |byte: u8| TransactionPrepared { transaction_hash: Hash32([byte; 32]).to_string(), ..first.clone() };
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![prepared()]).await;
    gateway.append(&id, vec![secured()]).await;
    gateway.append(&id, vec![seen()]).await;
    let finalized =
        FulfillmentFinalized { inclusion: delivery.inclusion.clone(), finalized_at: confirmation.confirmed_at };
    gateway.append(&id, vec![PaymentEvent::FulfillmentFinalized(finalized)]).await;
    let awaited = AttestationAwaited { inclusion: delivery.inclusion, awaited_at: confirmation.confirmed_at };
    gateway.append(&id, vec![PaymentEvent::AttestationAwaited(awaited)]).await;
    gateway.append(&id, vec![PaymentEvent::FulfillmentConfirmed(confirmation)]).await;
    gateway.append(&id, vec![PaymentEvent::ReleasePrepared(version(8))]).await;
    gateway.append(&id, vec![PaymentEvent::ReleaseRepriced(version(9))]).await;
    let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    assert_eq!((&timeline["status"], &timeline["at_rest"]), (&json!("completed"), &json!(false)));
    let entries = timeline["entries"].as_array().unwrap();
    let entry = |event: &str| entries.iter().find(|entry| entry["event"] == event).unwrap();
    let awaited = entry("AttestationAwaited");
    assert_eq!(
        (&awaited["status"], &entry("FulfillmentFinalized")["status"]),
        (&json!("completed"), &json!("completed"))
    );
    assert_eq!(awaited["transactions"]["fulfillment"]["transaction_hash"], Hash32([2; 32]).to_string());
    assert!(awaited["data"]["fulfillment_verifier"]["endpoint"].is_string(), "{awaited}");
    assert_eq!(entry("FulfillmentConfirmed")["data"]["release_from"], "2030-01-01T00:05:00Z");
    for (event, byte) in [("ReleasePrepared", 8), ("ReleaseRepriced", 9)] {
        let shown =
            json!({"release": {"transaction_hash": Hash32([byte; 32]).to_string(), "chain_id": "eip155:31337"}});
        assert_eq!((&entry(event)["transactions"], &entry(event)["data"]), (&shown, &json!({"attempt": 1})), "{event}");
    }
    assert!(!timeline.to_string().contains("\"raw\""));
}

#[tokio::test]
async fn a_payment_whose_attestation_is_missed_stays_completed_and_tells_of_its_refund() {
    let gateway = Gateway::new();
    let id = gateway.post(&body()).await.expect(200).payment_id();
    let PaymentEvent::FulfillmentSeen(delivery) = seen() else { unreachable!() };
    let time = at("2030-01-01T00:00:07Z");
    let finalized = FulfillmentFinalized { inclusion: delivery.inclusion.clone(), finalized_at: time };
    gateway.append(&id, vec![closed(&[]), awarded(DOCUMENT)]).await;
    gateway.append(&id, vec![secured()]).await;
    gateway.append(&id, vec![seen(), PaymentEvent::FulfillmentFinalized(finalized)]).await;
    let status = format!("/v1/payments/{id}/status");
    let completed = gateway.get(&status).await.expect(200).body;
    assert_eq!(completed["status"], "completed");
    assert_eq!(completed["fulfillment_confirmation"]["destination_tx_hash"], Hash32([2; 32]).to_string());
    gateway.append(&id, vec![PaymentEvent::AttestationMissed(AttestationMissed { missed_at: time })]).await;
    let refund = Inclusion { chain_id: ChainId::evm(31_337), ..delivery.inclusion };
    let refunded = EscrowRefunded { inclusion: refund, amount: "105".parse().unwrap(), claims: Vec::new() };
    gateway.append(&id, vec![PaymentEvent::EscrowRefunded(refunded)]).await;
    assert_eq!(gateway.get(&status).await.expect(200).body, completed, "what was told stands, its time included");
    let timeline = gateway.get(&format!("/v1/payments/{id}/timeline")).await.expect(200).body;
    let entries = timeline["entries"].as_array().unwrap();
    let shown: Vec<_> = entries[4..]
        .iter()
        .map(|entry| ["event", "status", "cause"].map(|member| entry[member].as_str().unwrap()))
        .collect();
    let expected = [
        ["FulfillmentSeen", "completed", "delivery_mined"],
        ["FulfillmentFinalized", "completed", "delivery_settled"],
        ["AttestationMissed", "completed", "refund_window"],
        ["EscrowRefunded", "completed", "refund_settled"],
    ];
    assert_eq!(shown, expected);
    assert!(entries[6]["summary"].as_str().unwrap().contains("goes back to the payer"), "{}", entries[6]);
    assert_eq!(timeline["at_rest"], true);
}

#[tokio::test]
async fn histories_of_unknown_payments_are_404() {
    let gateway = Gateway::new();
    for id in ["pay_x", "order-1", PaymentId::derive("nobody", "1").as_str()] {
        for read in ["timeline", "events"] {
            gateway.get(&format!("/v1/payments/{id}/{read}")).await.expect_error(404, "PAYMENT_NOT_FOUND");
        }
    }
}
